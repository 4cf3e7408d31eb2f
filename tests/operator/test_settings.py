import pytest

from scalecurve_api.programs.workload import PROGRAMS
from scalecurve_operator.settings import UNLISTED, SettingsError, read_settings


def test_nothing_set_is_the_default() -> None:
    settings = read_settings({})
    assert settings.namespaces == ()
    assert set(settings.images) == set(PROGRAMS.names())
    assert (settings.slots("default"), settings.lease_seconds, settings.log_format) == (1, 10.0, "json")
    assert settings.lease_namespace == "default"


def test_what_the_chart_sets() -> None:
    settings = read_settings(
        {
            "SCALECURVE_NAMESPACES": "a, b,",
            "SCALECURVE_POOLS": "default=2, big-1=4",
            "SCALECURVE_IMAGE_TORCH": "registry/torch:1",
            "SCALECURVE_UNLISTED_POOLS": "one",
            "SCALECURVE_FORBIDDEN_POD_OPTIONS": "hostNetwork, lockMemory",
            "SCALECURVE_MAX_EXPERIMENT_HOURS": "0.5",
            "SCALECURVE_EXPERIMENT_RECORD_BYTES": "1073741824",
            "SCALECURVE_LOG_FORMAT": "TEXT",
            "SCALECURVE_METRICS_PORT": "0",
            "SCALECURVE_LEASE_SECONDS": "2.5",
            "POD_NAMESPACE": "system",
            "POD_NAME": "operator-7",
        }
    )
    assert settings.namespaces == ("a", "b")
    assert [settings.slots(pool) for pool in ("default", "big-1", "other")] == [2, 4, 1]
    assert [settings.pool(pool) for pool in ("default", "big-1", "other")] == ["default", "big-1", UNLISTED]
    assert (settings.unlisted_pools, settings.max_experiment_hours) == ("one", 0.5)
    assert settings.forbidden_pod_options == ("hostNetwork", "lockMemory")
    assert settings.experiment_record_bytes == 1 << 30
    assert settings.images["torch"] == "registry/torch:1"
    assert (settings.log_format, settings.metrics_port, settings.lease_seconds) == ("text", 0, 2.5)
    assert (settings.lease_namespace, settings.identity) == ("system", "operator-7")


def test_empty_is_unset() -> None:
    empty = {f"SCALECURVE_{name}": " " for name in ("POOLS", "LOG_LEVEL", "HEALTH_PORT", "LEASE_NAMESPACE")}
    assert read_settings(empty | {"POD_NAME": "p"}) == read_settings({"POD_NAME": "p"})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("POOLS", "default"),
        ("POOLS", "default=0"),
        ("POOLS", "Default=1"),
        ("POOLS", "a=1,a=2"),
        ("LEASE_SECONDS", "0"),
        ("LEASE_SECONDS", "nan"),
        ("LEASE_SECONDS", "inf"),
        ("LEASE_SECONDS", "ten"),
        ("METRICS_PORT", "-1"),
        ("METRICS_PORT", "inf"),
        ("HEALTH_PORT", "65536"),
        ("HEALTH_PORT", "80.5"),
        ("RECORD_BYTES", "100"),
        ("RECORD_BYTES", "1e9"),
        ("LOG_LEVEL", "LOUD"),
        ("UNLISTED_POOLS", "two"),
        ("FORBIDDEN_POD_OPTIONS", "hostNetwork,hostPID"),
        ("MAX_EXPERIMENT_HOURS", "0"),
        ("EXPERIMENT_RECORD_BYTES", "1"),
        ("RECORDS_URL", "/records"),
        ("RECORDS_URL", "nosuchstore://bucket"),
        ("RECORDS_URL", "simplecache::file:///records"),
    ],
)
def test_what_cannot_be_understood_is_named(name: str, given: str) -> None:
    with pytest.raises(SettingsError, match=f"SCALECURVE_{name}.*(expected|nosuchstore)"):
        read_settings({f"SCALECURVE_{name}": given})
