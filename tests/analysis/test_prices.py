"""Price files: what is shipped, what one of a user's own may hold, what cost, recommend and the report make of it."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.cli import cli
from scalecurve.curves.cost import cost, holds_for, merged
from scalecurve.hardware.devices import devices
from scalecurve.hardware.entries import EntryError
from scalecurve.hardware.prices import find_price, price_notes, prices, prices_for
from scalecurve.reporting import report
from scalecurve.statistics.mean import mean
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import Cost
from tests.analysis.synthetic import Truth, experiment, write_bundle

OWN = (
    "mine: {accelerator: V100, per_hour: 14.4, accelerators: 4, currency: EUR, date: 2026-11-01, source: our contract}"
)
STRONG = Truth(step_s=lambda p: 0.1 / p.workers + 0.01 * (p.workers - 1), step_cv=0, repetition_cv=0)


def bundle_at(folder: Path, **more: object) -> Bundle:
    spec = experiment("priced", modes=["strong"], workers=[1, 2, 4, 8], windows=2, steps_per_window=3, **more)
    return open_bundle(write_bundle(folder, spec, STRONG, tables=False))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("priced")
    bundle_at(folder, cost={"perWorkerHour": 1, "datasetSamples": 1000, "epochs": 3})
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "prices.yaml"
    file.write_text(OWN)
    return file


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_without_a_price_the_shipped_ones_of_the_device_are_named(tmp_path: Path):
    truth = Truth(device_name="NVIDIA H200")
    bundle = open_bundle(write_bundle(tmp_path / "h", experiment("h", workers=[1, 2]), truth, tables=False))
    assert prices_for([bundle]) == ("hyperstack_h200",)
    assert prices_for([bundle_at(tmp_path / "cpu")]) == ()
    named = "Dated prices of this accelerator: --prices hyperstack_h200."
    assert named in run("cost", tmp_path / "h").output
    assert named not in run("cost", tmp_path / "h", "--per-worker-hour", "1").output


def test_two_devices_at_two_prices_stand_in_one_table(tmp_path: Path):
    study = Path(__file__).parents[2] / "manifests" / "studies" / "t4-v100"
    for name in ("t4", "v100"):
        result = run("import", study / f"{name}.csv", "--into", tmp_path / name, "--set", "mode=weak")
        assert result.exit_code == 0, result.stderr
    both = ("cost", tmp_path / "t4", tmp_path / "v100", "--dataset-samples", "24486", "--epochs", "30", "-o", "json")
    rows = json.loads(run(*both, "--per-worker-hour", "t4=0.35,v100=2.48").stdout)["cost"]["rows"]
    cost_at = {(row["experiment"], row["workers"]): row["total_cost"]["value"] for row in rows}
    assert cost_at["t4", 4] == pytest.approx(0.35 * 4 * 2594 / 3600)
    assert cost_at["v100", 4] == pytest.approx(2.48 * 4 * 2502 / 3600)
    twice = run(*both, "--per-worker-hour", "0.35", "--per-worker-hour", "2.48")
    assert twice.exit_code == 2
    assert "expected once, got 2 times; a price for each bundle or device is" in twice.stderr


def test_every_shipped_price_has_a_day_a_source_and_a_known_accelerator():
    for key, price in prices().items():
        assert price.source, key
        assert re.search(r"https?://|github|paleo", price.source), key
        assert price.date.year >= 2016, key
        assert price.accelerator in devices(), key
        assert key in price.sentence
        assert price.date.isoformat() in price.sentence


def test_the_price_of_an_accelerator_is_its_share_of_what_is_sold_together(own: Path):
    assert find_price("AWS-P2-16xlarge").accelerator_hour_price == pytest.approx(0.9)
    price = find_price(str(own))
    assert price.accelerator_hour_price == pytest.approx(3.6)
    assert price.cost(1000).per_worker_hour == pytest.approx(3.6)
    assert find_price(f"{own}:mine") == price
    assert "3.600 EUR per accelerator-hour (14.40 for 4), as of 2026-11-01; our contract" in price.sentence


def test_a_price_file_may_be_json(tmp_path: Path):
    file = tmp_path / "prices.json"
    entry = {"accelerator": "cpu", "per_hour": 1.5, "currency": "USD", "date": "2026-11-01", "source": "x"}
    file.write_text(json.dumps({"a": entry, "b": {**entry, "per_hour": 2}}))
    assert find_price(f"{file}:b").per_hour == 2
    with pytest.raises(EntryError, match="2 entries, expected one price: name one of them as"):
        find_price(str(file))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("per_hour: 14.4", "per_hour: -1", r"mine: per_hour: .*greater than 0, got '-1'"),
        ("per_hour: 14.4", "per_hour: cheap", "mine: per_hour: .*got 'cheap'"),
        ("per_hour: 14.4", "per_hour: .nan", "mine: per_hour: "),
        ("accelerators: 4", "accelerators: 0", "mine: accelerators: .*got '0'"),
        ("currency: EUR", "currency: euro", "mine: currency: .*got 'euro'"),
        ("date: 2026-11-01", "date: last year", "mine: date: .*expected a day such as 2026-11-09, got 'last year'"),
        ("date: 2026-11-01", "date: 2026", "mine: date: .*expected a day"),
        (", date: 2026-11-01", "", "mine: date: field required"),
        ("source: our contract", "source: ''", "mine: source: "),
        ("source: our contract", "sauce: x", "mine: "),
        ("mine: {", "mine: 3\nb: {", "mine: expected a mapping, got '3'"),
        ("mine: {", "mine: {{", "is not YAML"),
    ],
)
def test_a_price_file_that_cannot_be_is_refused_with_entry_and_field(own: Path, old: str, new: str, said: str):
    own.write_text(OWN.replace(old, new))
    with pytest.raises(EntryError, match=said) as error:
        find_price(str(own))
    assert str(error.value).startswith(str(own))
    assert "\n" not in str(error.value)


def test_another_price_is_put_on_the_same_work():
    stated = Cost(per_worker_hour=1, currency="USD", dataset_samples=1000, epochs=3)
    assert merged(Cost(per_worker_hour=2, currency="EUR"), stated) == Cost(
        per_worker_hour=2, currency="EUR", dataset_samples=1000, epochs=3
    )
    assert merged(Cost(per_worker_hour=2, epochs=5), stated).epochs == 5
    assert merged(None, stated) is stated
    assert merged(None, None) is None


def test_cost_by_a_price_file_tells_its_date_and_source_and_what_does_not_fit(bundle: Path, own: Path):
    found = json.loads(run("cost", bundle, "--prices", own, "-o", "json").stdout)["cost"]
    plain = json.loads(run("cost", bundle, "-o", "json").stdout)["cost"]
    for row, before in zip(found["rows"], plain["rows"], strict=True):
        assert row["total_cost"]["value"] == pytest.approx(before["total_cost"]["value"] * 3.6, rel=1e-4)
    assert any("our contract" in note and "2026-11-01" in note for note in found["notes"])
    assert any("the price is for V100" in note for note in found["notes"])
    assert any("Sold 4 at a time: the idle rest at 1, 2 workers" in note for note in found["notes"])
    assert any("without date or source" in note for note in plain["notes"])


def test_a_price_fits_its_own_device_by_any_of_its_names(tmp_path: Path):
    opened = bundle_at(tmp_path)
    names = {place.device_name for trial in opened.trials for place in trial.record.topology}
    (name,) = names
    entry = find_price("hyperstack_h200")
    assert not any(
        "The runs used" in said for said in price_notes(entry.model_copy(update={"accelerator": name}), [opened])
    )
    assert any("The runs used" in said for said in price_notes(entry, [opened]))


def test_the_front_holds_the_counts_that_none_beats_in_both(bundle: Path):
    (series,) = cost([open_bundle(bundle)]).series
    times = {p.result.workers: p.total_s.value for p in series.points}
    money = {p.result.workers: p.total_cost.value for p in series.points}
    for n in times:
        beaten = any(times[m] < times[n] and money[m] < money[n] for m in times)
        assert (n in series.front) is not beaten
    assert series.cheapest in series.front
    assert series.fastest in series.front
    assert 8 not in series.front


def test_the_way_to_the_target_has_its_cost(tmp_path: Path):
    def reached(record: TrialRecord) -> TrialRecord:
        seconds = {1: 400.0, 2: 300.0, 4: 350.0}[record.trial.point.workers]
        return record.model_copy(update={"summary": record.summary.model_copy(update={"seconds_to_target": seconds})})

    spec = experiment("goal", modes=["weak"], workers=[1, 2, 4], cost={"perWorkerHour": 3.6})
    found = cost([open_bundle(write_bundle(tmp_path / "b", spec, tables=False, change=reached))])
    (series,) = found.series
    assert [p.target_cost.value for p in series.points] == pytest.approx([0.4, 0.6, 1.4])
    assert series.target_front == (1, 2)
    assert "Cost to target" in found.table().text()


def test_a_count_whose_runs_did_not_all_reach_the_target_is_compared_with_none(tmp_path: Path):
    """The run that was lucky would else be the cheapest way there is."""

    def reached(record: TrialRecord) -> TrialRecord:
        lucky = record.trial.point.workers == 1 or record.trial.repetition == 1
        seconds = {1: 400.0, 2: 20.0}[record.trial.point.workers] if lucky else None
        return record.model_copy(update={"summary": record.summary.model_copy(update={"seconds_to_target": seconds})})

    spec = experiment("goal", modes=["weak"], workers=[1, 2], cost={"perWorkerHour": 3.6})
    found = cost([open_bundle(write_bundle(tmp_path / "b", spec, tables=False, change=reached))])
    (series,) = found.series
    assert [p.result.missed_target for p in series.points] == [0, 2]
    assert series.target_front == (1,)
    assert any("weak: at 2 workers, 2 of 3 runs missed the target" in note for note in found.table().notes)


def test_time_to_the_target_has_the_interval_that_training_shows(tmp_path: Path):
    def reached(record: TrialRecord) -> TrialRecord:
        seconds = [1.0, 2.0, 6.0][record.trial.repetition - 1]
        return record.model_copy(update={"summary": record.summary.model_copy(update={"seconds_to_target": seconds})})

    spec = experiment("goal", modes=["weak"], workers=[1], cost={"perWorkerHour": 3.6})
    (series,) = cost([open_bundle(write_bundle(tmp_path / "b", spec, tables=False, change=reached))]).series
    assert series.points[0].result.to_target_s == mean([1.0, 2.0, 6.0], least=0)


def test_the_only_count_is_not_called_the_best(tmp_path: Path):
    spec = experiment("alone", modes=["weak"], workers=[2], windows=2, steps_per_window=3, cost={"perWorkerHour": 3.6})
    table = cost([open_bundle(write_bundle(tmp_path / "b", spec, tables=False))]).table()
    row = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert row["cost_per_million"] is not None
    assert (row["best"], row["front"]) == (None, None)


@pytest.mark.parametrize("verb", ["cost", "recommend", "predict", "report"])
def test_a_price_that_is_not_known_is_one_line(bundle: Path, verb: str):
    result = run(verb, bundle, "--prices", "aws_p6")
    assert result.exit_code == 2
    assert re.fullmatch(r"scalecurve: price 'aws_p6' is unknown.* \(known: .*\)\n", result.stderr)


def test_options_that_contradict_a_price_are_refused(bundle: Path):
    for more in (("--per-worker-hour", "1"), ("--currency", "EUR")):
        result = run("cost", bundle, "--prices", "aws_p2_xlarge", *more)
        assert result.exit_code == 2
        assert "drop --per-worker-hour and --currency" in result.stderr
    assert "require a price" in run("cost", bundle, "--epochs", "2").stderr


def test_the_shipped_prices_are_listed(bundle: Path):
    listed = run("cost", bundle, "--prices", "list")
    assert listed.exit_code == 0
    assert all(key in listed.stdout for key in prices())


def test_recommend_and_predict_tell_the_price_too(bundle: Path, own: Path):
    for verb, name in (("recommend", "recommendation"), ("predict", "predicted")):
        document = json.loads(run(verb, bundle, "--prices", own, "-o", "json").stdout)
        assert any("our contract" in note for note in document[name]["notes"]), verb


def test_what_a_cost_holds_for_is_said_once_a_table(bundle: Path):
    said = "Time and cost are of throughput in one session, and so are their intervals: no start, evaluation or "
    for verb, name in (("cost", "cost"), ("predict", "predicted")):
        notes = json.loads(run(verb, bundle, "-o", "json").stdout)[name]["notes"]
        assert sum(note.startswith(said) for note in notes) == 1, verb
        for form in ("table", "md"):
            assert run(verb, bundle, "-o", form).stdout.count(said) == 1, (verb, form)
    assert holds_for([3, 2]).startswith("Time and cost are of throughput over 2 sessions, ")


def test_the_report_uses_the_price_and_draws_cost_against_time(tmp_path: Path, bundle: Path, own: Path):
    price = find_price(str(own))
    opened = open_bundle(bundle)
    written = report([opened], tmp_path, ("md", "svg"), price.cost(), price_notes(price, [opened]))
    text = (tmp_path / "report.md").read_text()
    assert "our contract" in text
    assert "(EUR)" in text
    assert "(USD)" not in text
    assert tmp_path / "plots" / "pareto.svg" in written
