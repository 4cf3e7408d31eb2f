"""Networks as data: layers in a graph, their shapes, counts and receptive fields; no deep-learning framework."""

from scalebench.network.catalog import SHIPPED, find, network_of_model, shipped
from scalebench.network.counting import Convention, LayerCount, Totals, Work, count, totals
from scalebench.network.graph import Network
from scalebench.network.layer import NetworkError, Shape
from scalebench.network.reading import read_network, write_network

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
