"""One worker count is an experiment: every verb but the speed-up; and it grows by --add-points.

More than ten seconds, since it runs two experiments for real.
"""

from __future__ import annotations

import json

from .conftest import Desk

GROWING = {"resources": {"limits": {"cpu": 1}}}


def scaling(*workers: int) -> dict[str, object]:
    return {"modes": ["weak"], "workers": list(workers), "batch": {"perWorker": 4}}


def test_every_verb_takes_one_count_and_points_are_added(desk: Desk):
    file = desk.write(name="one", scaling=scaling(1), **GROWING)
    assert desk.here("validate", file, code=0).out
    assert desk.here("plan", file, code=0).out
    ran = desk.here("run", file, code=0).out
    assert "Throughput" in ran
    assert "One worker count: no speed-up. Further counts can be added with `scalecurve run --add-points`." in ran
    assert "Speed-up" not in ran
    bundle = desk.folder / "results" / "one"
    for verb in ("status", "cost", "diagnose", "allreduce", "training", "fit", "predict", "recommend", "verify"):
        shown = desk.here(verb, bundle, code=2 if verb in ("allreduce", "training") else 0)  # empty there
        assert "Traceback" not in shown.err
        assert "Speed-up" not in shown.out
    desk.here("report", bundle, "--out", "report", code=0)
    report = json.loads((desk.folder / "report" / "report.json").read_text())
    assert report["tables"]["scaling"]["title"] == "Throughput"
    assert not any("Speed-up" in line for line in report["methods"])
    plots = {path.stem for path in (desk.folder / "report" / "plots").glob("*.svg")}
    assert "throughput" in plots
    assert not plots & {"speedup", "efficiency"}

    desk.write(name="one", scaling=scaling(1, 2), **GROWING)
    planned = desk.here("run", file, "--bundle", bundle, "--add-points", "--dry-run", code=0).out
    assert "weak-2-1x2" in planned
    grown = desk.here("run", file, "--bundle", bundle, "--add-points", code=0)
    assert "Speed-up" in grown.out
    assert "time of the run differs between the points of weak: first run at 1; added 20" in grown.err
    again = desk.here("run", file, "--bundle", bundle, "--add-points", code=2).err
    assert "has every point already (1, 2 workers); add some to spec.scaling.workers" in again
    mixed = desk.here("run", file, "--add-points", "--resume", code=2).err
    assert "--add-points excludes --resume, --add-session and --against" in mixed
