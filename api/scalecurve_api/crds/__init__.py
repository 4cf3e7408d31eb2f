"""The custom resource definitions and the reference page, generated from the models."""
