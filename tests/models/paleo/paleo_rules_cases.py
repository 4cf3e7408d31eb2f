"""Shared by the tests of paleo_rules."""

from hypothesis import strategies as st

from scalecurve.hardware.devices import devices, find_device, find_link, links
from scalecurve_models.networks import Network
from scalecurve_models.networks.graph import parse_layer
from scalecurve_models.paleo.scaling import Platform

K80, TWENTY = find_device("K80"), find_link("ethernet20")


ON = Platform(K80, TWENTY)


def network(*layers, shape=(8, 8, 3)):
    return Network(
        "test", tuple(parse_layer(each) for each in ({"name": "in", "type": "input", "shape": shape}, *layers))
    )


NETWORKS = st.sampled_from(["alex_v2", "nin", "overfeat", "vgg16", "inception_v3", "resnet50", "googlenet", "alexnet"])


PLATFORMS = st.builds(
    Platform,
    st.sampled_from(sorted(key for key, device in devices().items() if "fp32" in device.gflops)).map(find_device),
    st.sampled_from(sorted(links())).map(find_link),
    st.floats(0.05, 3),
    st.floats(0.05, 3),
)
