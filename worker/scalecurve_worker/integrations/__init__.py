"""One line where a framework runs the training loop: callbacks for Transformers, Lightning, Keras; loaders for others.

    from scalecurve_worker.integrations.transformers import ScaleCurveCallback

    Trainer(model, arguments, train_dataset=data, callbacks=[ScaleCurveCallback()]).train()

Each module imports its framework; nothing here does.
"""
