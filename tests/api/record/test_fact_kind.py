"""Facts travel from a rank's record into its trial's by the kinds that are registered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from scalecurve_api.features.noise_scale.facts import NOISE_SCALE, NoiseScaleRow
from scalecurve_api.model import understood
from scalecurve_api.record import fact_kind
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.checks.training import replicas
from scalecurve_api.record.envelope import seal, unseal
from scalecurve_api.record.fact_kind import FactKind, known_kinds
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.registry import Registry
from tests.api.rank_records import GOOD, rank_record, trial, with_facts

TWO = trial()
ROW = {"epoch": 1, "steps": 2, "smallBatch": 4, "largeBatch": 8, "smallNorm2": 2.0, "largeNorm2": 1.5}
ROW |= {"gradient2": 1.0, "trace": 50.0}
ROWS = [NoiseScaleRow.model_validate(ROW)]
PLAIN = rank_record(0, TWO).wire()


def test_both_forms_are_read_and_the_old_one_is_written() -> None:
    old = RankRecord.model_validate({**PLAIN, "noiseScale": [ROW]})
    new = RankRecord.model_validate({**PLAIN, "facts": {"noiseScale": [ROW]}})
    assert old == new == with_facts(rank_record(0, TWO), noiseScale=ROWS)
    assert NOISE_SCALE.of(new) == ROWS
    wire = new.wire()
    assert wire["noiseScale"] == [ROW]
    assert "facts" not in wire
    assert RankRecord.model_validate_json(new.model_dump_json(by_alias=True)) == new


def test_a_record_without_any_is_written_as_it_always_was() -> None:
    assert PLAIN["noiseScale"] == []
    assert NOISE_SCALE.of(RankRecord.model_validate(PLAIN)) == ()


@pytest.mark.parametrize("place", [("noiseScale",), ("facts", "noiseScale")])
def test_an_error_has_the_place_of_what_was_read(place: tuple[str, ...]) -> None:
    wrong: Any = [{**ROW, "epoch": "first"}]
    for name in reversed(place):
        wrong = {name: wrong}
    with pytest.raises(ValidationError) as caught:
        RankRecord.model_validate({**PLAIN, **wrong, "world": "many"})
    assert [error["loc"] for error in caught.value.errors()] == [("world",), (*place, 0, "epoch")]


def test_what_a_newer_version_adds_to_a_kind_is_passed_over() -> None:
    record, unknown = understood(RankRecord, {**PLAIN, "noiseScale": [{**ROW, "since": 1}], "sinceThen": 3})
    assert NOISE_SCALE.of(record) == ROWS
    assert sorted(unknown) == ["noiseScale.since", "sinceThen"]


def test_an_unknown_kind_is_kept_as_it_is() -> None:
    facts = {"queueTime": {"seconds": 2}}
    ranks = {rank: RankRecord.model_validate({**PLAIN, "facts": facts}) for rank in range(2)}
    record = assemble(TWO, ranks, {}, GOOD).record
    assert record.wire()["facts"] == facts
    assert TrialRecord.model_validate(json.loads(record.stored())) == record


def test_fields_of_a_kind_that_is_not_installed_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_kind, "FACT_KINDS", Registry("none", "kind of fact", FactKind, {}))
    record = RankRecord.model_validate({**PLAIN, "noiseScale": [ROW]})
    assert record.facts == {"noiseScale": [ROW]}
    assert RankRecord.model_validate(record.wire()) == record


@pytest.mark.parametrize("with_any", [(0,), (1,), (0, 1)])
def test_ranks_keep_their_own_facts_in_an_envelope(with_any: tuple[int, ...]) -> None:
    facts = {"noiseScale": ROWS, "queueTime": {"seconds": 2}}
    ranks = {rank: with_facts(rank_record(rank, TWO), **(facts if rank in with_any else {})) for rank in range(2)}
    assert unseal(seal(TWO.name, 1, ranks, {}, 1 << 20)).ranks == ranks


def test_the_first_rank_stands_for_the_trial() -> None:
    ranks = {0: with_facts(rank_record(0, TWO), noiseScale=ROWS), 1: rank_record(1, TWO)}
    record = assemble(TWO, ranks, {}, GOOD).record
    assert NOISE_SCALE.of(record) == ROWS
    assert record.wire()["noiseScale"] == [ROW]


def test_a_kind_under_another_name_than_its_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_kind, "FACT_KINDS", Registry("none", "kind of fact", FactKind, {"noise": NOISE_SCALE}))
    with pytest.warns(UserWarning, match="kind of fact 'noiseScale' is registered as 'noise' and ignored"):
        assert not list(known_kinds())


def test_facts_show_replicas_that_diverged_and_a_broken_kind_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [rank_record(rank, TWO) for rank in range(2)]

    def kinds(**apart: Any) -> None:
        made = {name: FactKind(name, dict, None, apart=function) for name, function in apart.items()}
        monkeypatch.setattr(fact_kind, "FACT_KINDS", Registry("none", "kind of fact", FactKind, made))

    kinds(quiet=lambda trial, ranks: None, loud=lambda trial, ranks: f"{len(ranks)} ranks are two models")
    found = replicas(TWO, ranks)
    assert (found.passed, found.detail) == (False, "2 ranks are two models")
    kinds(broken=lambda trial, ranks: ranks[9])
    with pytest.warns(UserWarning, match="kind of fact 'broken': IndexError"):
        assert replicas(TWO, ranks).passed
