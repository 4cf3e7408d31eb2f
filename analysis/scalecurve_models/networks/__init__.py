"""Networks as data: layers in a graph, with shapes, counts and receptive fields, without any framework."""

from scalecurve_models.networks.catalog import SHIPPED, find_network, network_of_model, shipped
from scalecurve_models.networks.counting import Work, count, totals
from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import NetworkError, Shape
from scalecurve_models.networks.reading import read_network, write_network

__all__ = [
    "SHIPPED",
    "Network",
    "NetworkError",
    "Shape",
    "Work",
    "count",
    "find_network",
    "network_of_model",
    "read_network",
    "shipped",
    "totals",
    "write_network",
]
