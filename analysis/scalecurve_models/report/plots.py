"""The plots that the models add to a report; importing them registers them."""

from scalecurve_models.report import collectives, learning_curves, predicted, published_curves

__all__ = ["collectives", "learning_curves", "predicted", "published_curves"]
