"""Where objects are: names that an object in the cluster chose cannot lead elsewhere."""

import pytest

from scalecurve_kube.errors import ClusterError
from scalecurve_kube.resources import CONFIG_MAPS


@pytest.mark.parametrize("name", [".", "..", "a/b", "../../secrets/s", "a%2f..%2fb", "/"])
def test_a_name_that_is_more_than_a_segment_is_refused(name: str) -> None:
    for namespace, rest in (("n", name), (name, "m")):
        with pytest.raises(ClusterError, match=r"cannot name an object of kind ConfigMap: not one segment of a path"):
            CONFIG_MAPS.path(namespace, rest)


def test_other_characters_are_quoted() -> None:
    assert CONFIG_MAPS.path("n", "a?b#c") == "/api/v1/namespaces/n/configmaps/a%3Fb%23c"
