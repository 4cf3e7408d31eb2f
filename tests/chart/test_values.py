"""Values: each is documented, has a schema, and what the schema does not know is refused by name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, refusal
from tools.chart.readme import README, text, values

SOURCE = (CHART / "values.yaml").read_text(encoding="utf-8")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DOCUMENTED = {path: what for path, _, what in values(SOURCE)}

BAD = [
    ("replicas=2", "replicas"),
    ("image.tagg=1", "tagg"),
    ("image.tag=a b", "/image/tag"),
    ("image.digest=sha256:short", "/image/digest"),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ("image.repository=", "/image/repository"),
    ("workerImages.pytorch.tag=1", "pytorch"),
    ("workerImages.torch.pullPolicy=Always", "pullPolicy"),
    ("namespaces=team-a", "/namespaces"),
    ("namespaces[0]=Team_A", "/namespaces/0"),
    ("namespaces={a,a}", "/namespaces"),
    ("pools.default=0", "/pools/default"),
    ("pools.default=many", "/pools/default"),
    ("unlistedPools=two", "/unlistedPools"),
    ("forbiddenPodOptions={hostPID}", "/forbiddenPodOptions/0"),
    ("maxExperimentHours=0", "/maxExperimentHours"),
    ("experimentRecordBytes=1", "/experimentRecordBytes"),
    ("clusterWide=some", "/clusterWide"),
    ("recordsUrl=simplecache::s3://bucket", "/recordsUrl"),
    ("pools.Big_One=1", "Big_One"),
    ("startingSeconds=soon", "/startingSeconds"),
    ("startingSeconds=0", "/startingSeconds"),
    ("recordBytes=1000", "/recordBytes"),
    ("leaseSeconds=1", "/leaseSeconds"),
    ("log.level=verbose", "/log/level"),
    ("log.format=xml", "/log/format"),
    ("crds.install=perhaps", "/crds/install"),
    ("crds.keep=false", "keep"),
    ("imagePullSecrets[0]=registry", "/imagePullSecrets/0"),
    ("serviceAccount.create=1", "/serviceAccount/create"),
    ("serviceAccount.name=Not Valid", "/serviceAccount/name"),
    ("rbac.clusterAdmin=true", "clusterAdmin"),
    ("podAnnotations.a=1", "/podAnnotations/a"),
    ("tolerations[0].effect=Never", "/tolerations/0/effect"),
    ("affinity.nodeAfinity.x=1", "nodeAfinity"),
    ("resources.limit.memory=1Gi", "limit"),
    ("extraEnv[0].value=x", "/extraEnv/0"),
    ("ports.metrics=80", "/ports/metrics"),
    ("ports.health=http", "/ports/health"),
    ("livenessProbe.periodSeconds=0", "/livenessProbe/periodSeconds"),
    ("podDisruptionBudget.maxUnavailable=2", "/podDisruptionBudget/maxUnavailable"),
    ("networkPolicy.apiServerPorts=443", "/networkPolicy/apiServerPorts"),
    ("networkPolicy.from[0].pods.a=b", "pods"),
    ("serviceMonitor.interval=30", "/serviceMonitor/interval"),
    ("podMonitor.interval=often", "/podMonitor/interval"),
    ("prometheusFiles.enable=true", "enable"),
    ("prometheusRule.startingMinutes=0", "/prometheusRule/startingMinutes"),
    ("dashboard.enabled=on", "/dashboard/enabled"),
]


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize(("given", "named"), BAD, ids=[given for given, _ in BAD])
def test_a_bad_value_is_refused_by_name(given: str, named: str) -> None:
    said = refusal("--set", given)
    assert "don't meet the specifications of the schema" in said
    assert f"'{named}'" in said


def test_a_line_says_what_each_value_is() -> None:
    assert [path for path, what in DOCUMENTED.items() if not what.endswith(".") or "|" in what] == []


def schema_paths(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Values that the schema knows, down to where values.yaml has its lines."""
    for name, inner in schema["properties"].items():
        path = f"{prefix}{name}"
        whole = SCHEMA["$defs"][inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
        if path in DOCUMENTED or "properties" not in whole:
            yield path
        else:
            yield from schema_paths(whole, f"{path}.")


def test_the_schema_knows_just_the_values_that_there_are() -> None:
    assert set(schema_paths(SCHEMA)) - {"global"} == DOCUMENTED.keys()


def test_every_object_of_the_schema_is_closed() -> None:
    def open_objects(node: object, path: str) -> Iterator[str]:
        if isinstance(node, dict):
            if "properties" in node and node.get("additionalProperties") is not False:
                yield path
            for name, part in node.items():
                yield from open_objects(part, f"{path}/{name}")

    assert list(open_objects(SCHEMA, "")) == []


def test_what_is_above_the_table_stays() -> None:
    assert text().startswith(README.read_text(encoding="utf-8").partition("## Values\n")[0])


def test_a_documented_mapping_is_one_value_and_another_is_not() -> None:
    found = list(values("# -- All.\na:\n  b: 1\nc:\n  # -- One.\n  d: [2]\n  e: x\n"))
    assert found == [("a", {"b": 1}, "All."), ("c.d", [2], "One.")]
    assert yaml.safe_load(SOURCE).keys() == {path.partition(".")[0] for path in DOCUMENTED}
