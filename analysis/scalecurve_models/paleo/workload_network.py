"""The network that an experiment trains: its model's, at the size of its images."""

from scalecurve_api.programs.workload import Workload
from scalecurve_models.networks import Network, NetworkError, network_of_model


def network_of(workload: Workload) -> Network:
    """The network of a built-in training program, with the input of ``workload.data.shape`` (channels first).

    Raises NetworkError for a program without a built-in network, a model that is no CNN, or a shape that it does not
    take.
    """
    if not workload.runs or not workload.takes_batch:
        raise NetworkError(f"program {workload.program} has no known network; name one with --network")
    network = network_of_model(workload.model)
    shape = workload.data.shape
    if shape is None:
        return network
    if len(shape) != 3:
        raise NetworkError(f"workload.data.shape: {network.name} expects [channels, height, width], got {shape}")
    channels, height, width = shape
    return network.with_input((height, width, channels))
