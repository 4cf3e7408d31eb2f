"""Which suite a test belongs to, by what it needs, and which tests get a second look.

`make test` runs the tests that need no more than it installs, `make check` those of the repository itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tools import ROOT
from tools.check import REPOSITORY

SUITES = {
    "tests/benchmarks/": "benchmarks",
    "tests/chart/test_linters.py": "cluster",
    "tests/cluster/": "cluster",
    "tests/prometheus/": "cluster",
    "tests/images/test_archive": "nodes",
    "tests/images/test_built_images.py": "nodes",
    "tests/nodes/": "nodes",
    "tests/worker/features/layouts/": "layouts",
    "tests/worker/features/tensorflow/": "frameworks",
    "tests/worker/features/horovod/": "frameworks",
    "tests/importing/test_run_files.py::test_tensorboards_own": "integrations",
    "tests/timelines/test_mlflow_export.py::test_each_session": "integrations",
    "tests/worker/integrations/real/": "integrations",
    "tests/worker/torch/test_equal_losses.py::test_deepspeed": "integrations",
    **dict.fromkeys(REPOSITORY, "repository"),
}
"""How a test's path begins → its suite; all others are `make test`'s."""
PROCESSES = (
    "tests/analysis/reporting/test_in_a_browser.py",
    "tests/analysis/reporting/test_registry.py",
    "tests/analysis/reporting/test_report.py::test_analysis_is_quick_to_import",
    "tests/analysis/reporting/test_report.py::test_the_same_bundle_gives_the_same_bytes_anywhere",
    "tests/analysis/statistics/test_intervals.py::test_importing_the_package",
    "tests/analysis/features/accuracy/test_training.py::test_the_same_bytes_in_another_process",
    "tests/api/crds/test_generate.py::test_the_command_writes_the_same_files_again",
    "tests/api/crds/test_reference.py::test_the_command_writes_the_same_page_again",
    "tests/api/record/test_envelope.py::test_reading_loads_nothing_heavy",
    "tests/chart/",
    "tests/cli/test_bundles.py",
    "tests/cli/test_one_count.py",
    "tests/cli/test_overlays.py",
    "tests/cli/test_plan.py",
    "tests/cli/test_sessions.py",
    "tests/cli/test_usage.py",
    "tests/cli/test_validate.py",
    "tests/cli/test_verify.py",
    "tests/kube/test_cluster.py::test_credentials_that_expired_are_renewed",
    "tests/local/devices/test_locks.py",
    "tests/local/supervision/",
    "tests/models/cli/test_network.py::test_showing_a_network_imports",
    "tests/models/cli/test_predict_projection.py::test_two_h200s",
    "tests/operator/reconcile/test_collect.py",
    "tests/operator/reconcile/test_hostile_records.py",
    "tests/operator/reconcile/test_judge_process.py",
    "tests/test_ci_run.py",
    "tests/test_second_look.py",
    "tests/test_plugin_package.py",
    "tests/worker/features/collectives/test_nccl_tests.py",
    "tests/worker/integrations/instrument/test_injection.py",
    "tests/worker/integrations/instrument/test_leaving.py",
    "tests/worker/integrations/test_measurement.py::test_no_framework_is_loaded",
    "tests/worker/launch/test_init_process.py",
    "tests/worker/launch/test_sshd.py",
    "tests/worker/monitor/test_cpu_load.py",
    "tests/worker/process/test_startup.py",
    "tests/worker/rendezvous/test_tcp.py",
    "tests/worker/sdk/test_bench.py",
)
"""How the path of a test begins that starts processes and isn't marked so in its file."""
ALONE = (
    "tests/chart/test_install.py",
    "tests/chart/test_installed_operator.py",
    "tests/chart/test_scraping.py",
    "tests/cli/test_terminal.py",
    "tests/worker/monitor/test_cpu_load.py",
)
"""How the path of a test begins that has a control plane, or watches a terminal or the machine's load: nothing runs
beside it. All others on real processes run two at a time."""
GATE = (
    "tests/operator/runners/test_accepted_jobs.py",
    "tests/operator/runners/test_scheduled_jobs.py",
    "tests/cluster/test_cli_escapes.py",
    "tests/cluster/test_cli_records.py::test_a_pull_writes_what_an_engine_here_would",
    "tests/cluster/test_cli_records.py::test_a_record_that_is_not_whole_is_not_written",
    "tests/cluster/test_cli_records.py::test_a_report_pulls_first",
    "tests/cluster/test_cli_records.py::test_a_second_pull_fetches_what_is_missing",
    "tests/cluster/test_cli_records.py::test_status",
    "tests/cluster/test_operator_outcomes.py::test_every_end_is_told_apart[Job]",
    "tests/cluster/test_operator_process.py",
    "tests/cluster/test_operator_sessions.py::test_the_api_server_refuses_what_no_engine_would_run",
    "tests/cluster/test_operator_wishes.py::test_a_started_spec_is_kept_by_the_api_server",
    "tests/cluster/test_operator_wishes.py::test_cancel_ends_what_runs_and_keeps_what_is_done",
    "tests/cluster/test_player.py::test_a_broken_run_fails_and_its_pods_say_why[Job]",
    "tests/cluster/test_player.py::test_a_good_run_succeeds_and_leaves_a_right_record[Job]",
    "tests/cluster/test_proxy.py",
    "tests/cluster/test_refusals.py",
    "tests/cluster/test_runner_auto.py::test_one_pod_needs_nothing",
    "tests/cluster/test_tenants.py::test_pod_options_that_are_forbidden_are_refused",
    "tests/cluster/test_tenants.py::test_pools_that_the_operator_does_not_list_are_refused",
)
"""How the path of a test begins that is one of the suite `cluster` and runs in `make test`, too, after those of ALONE:
quick and steady ones that need no job operator, for these take seven minutes to build. The control plane of
tests/cluster lives to the end of the run, so they come last: there is one at a time."""
LONGEST = (
    "tests/worker/torch/test_strategies.py",
    "tests/worker/launch/test_pod.py",
    "tests/worker/torch/test_equal_losses.py",
    "tests/cluster/test_operator_kills.py",
)
"""How the paths of the tests begin that come first: at the end one of two lanes would wait for them."""
QUICK_TOOLS = frozenset(["apt-get", "fc-list", "git", "ldconfig", "nvidia-smi", "pip", "sha256sum", "ssh-keygen"])
"""Commands that answer at once, if they are there at all: a busy machine changes nothing about them."""
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
"""The interpreter's audit events when a process is started."""
DEADLINE = "SCALECURVE_TEST_DEADLINE"
"""Unix seconds after which tests are skipped: CI has only so much time for a long suite."""

# How long an example takes says how busy the machine is, and new examples each time would make every landing a lottery:
# `gate` draws the same ones always, `nightly` others and more.
_PATIENT = [HealthCheck.too_slow]
settings.register_profile(
    "gate", deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=_PATIENT
)
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("SCALECURVE_HYPOTHESIS", "gate"))

_started: list[str] = []


def _note_start(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in STARTS:
        return
    command = arguments[1] if event == "subprocess.Popen" else event
    words = [command] if isinstance(command, (str, os.PathLike)) else list(command)
    if Path(words[0]).name not in QUICK_TOOLS and "pip" not in words:
        _started.append(" ".join(map(str, words))[:200])


sys.addaudithook(_note_start)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no other files where the listed tests run: it takes 15 s to read all."""
    if config.option.markexpr != "alone" or not collection_path.name.startswith("test_"):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    return True if not any(listed.startswith(path) for listed in (*ALONE, *GATE)) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    last_phase = config.option.markexpr == "alone"
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if last_phase:
        items.sort(key=lambda item: _rank(item.nodeid))
    for item in items:
        suite = next((suite for path, suite in SUITES.items() if item.nodeid.startswith(path)), None)
        # An API server for the operator's unit tests brings training-operator's webhooks along.
        if suite is None and item.nodeid.startswith("tests/operator/") and "tier" in getattr(item, "fixturenames", ()):
            suite = "cluster"
        gate = item.nodeid.startswith(GATE)
        if suite is not None and not (gate and last_phase):
            item.add_marker(suite)
        alone = gate or item.nodeid.startswith(ALONE)
        if alone:
            item.add_marker("alone")
        if alone or item.nodeid.startswith(PROCESSES) or suite not in (None, "repository"):
            item.add_marker("processes")
        # A busy machine can fail a test on real processes, so it gets a second look, and the first error is shown.
        if item.get_closest_marker("processes"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _rank(test: str) -> int:
    """The place of a test among those listed."""
    return next((rank for rank, path in enumerate((*ALONE, *GATE)) if test.startswith(path)), 0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(DEADLINE, "inf")):
        pytest.skip("the time for this run is used up")
    if getattr(item, "execution_count", 1) > 1:
        _finish_fixtures_of_module(item)


def _finish_fixtures_of_module(item: pytest.Item) -> None:
    """Let a second look make anew what the tests of a module share: it is often the run that failed."""
    assert isinstance(item, pytest.Function)
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if definition.scope == "module":
                definition.finish(item._request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that starts a process and isn't known to: it would run beside others, which its ranks can't stand."""
    _started.clear()
    result = yield
    known = any(item.get_closest_marker(name) for name in ("processes", "repository"))
    if _started and not known:
        pytest.fail(f"not marked `processes`, and started {_started[0]}", pytrace=False)
    return result


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig but what a test writes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
