"""``scalecurve run --search`` and ``plan --search`` as a person types them."""

from __future__ import annotations

import json

import pytest

from .conftest import Desk

pytestmark = pytest.mark.processes
ONE = {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}


def test_short_trials_of_all_then_full_trials_of_the_best(desk: Desk):
    file = desk.write(scaling=ONE, matrix={"env.KIND": ["a", "b", "c", "d"]})
    planned = desk.here("plan", file, "--search", "-o", "json", code=0).json["search"]["rows"]
    assert [(row["round"], row["trials"]) for row in planned] == [("rung 1", 4), ("finalists", 3), ("full grid", 4)]
    ran = desk.here("run", file, "--search", code=0)
    folder = desk.folder / "results" / "desk"
    assert len(list((desk.folder / "results" / "desk-search" / "rung-1" / "trials").iterdir())) == 4
    record = json.loads((folder / "search.json").read_text())
    assert record["candidates"] == 4
    assert [rung["trials"] for rung in record["rungs"]] == [4, len(list((folder / "trials").iterdir()))]
    assert "\nthe search took " in ran.out
    assert "; the full grid takes 4 trials" in ran.out
    assert "undecided against" in ran.out
    refused = desk.here("run", file, "--search", code=2)
    assert "already holds an experiment" in refused.err
    again = desk.here("run", file, "--search", "--resume", "-o", "json", code=0).json
    assert len(again["search"]["rows"]) == 2
    assert json.loads((folder / "search.json").read_text()) == record


def test_what_a_search_excludes(desk: Desk):
    file = desk.write(scaling=ONE)
    for other in (["--add-session"], ["--add-points"], ["--dry-run"], ["--against", str(file)]):
        assert "--search excludes" in desk.here("run", file, "--search", *other, code=2).err
    wrong = desk.write("wrong.yaml", scaling={**ONE, "workers": [0]})
    assert "scaling.workers" in desk.here("plan", wrong, "--search", code=2).err
