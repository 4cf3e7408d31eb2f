"""The plots that the models add to a report; importing them registers them."""

from scalecurve_models.report import collectives, learning_curves, paleo, predicted, published_curves, servers

__all__ = ["collectives", "learning_curves", "paleo", "predicted", "published_curves", "servers"]
