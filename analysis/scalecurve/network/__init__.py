"""Networks as data: layers in a graph, their shapes, counts and receptive fields; no deep-learning framework."""

from scalecurve.network.catalog import SHIPPED, find, network_of_model, shipped
from scalecurve.network.counting import Convention, LayerCount, Totals, Work, count, totals
from scalecurve.network.graph import Network
from scalecurve.network.layer import NetworkError, Shape
from scalecurve.network.reading import read_network, write_network

__all__ = [
    "SHIPPED",
    "Convention",
    "LayerCount",
    "Network",
    "NetworkError",
    "Shape",
    "Totals",
    "Work",
    "count",
    "find",
    "network_of_model",
    "read_network",
    "shipped",
    "totals",
    "write_network",
]
