"""Paleo against the authors' code: the given vectors, and others that their code was run for."""

import csv
from pathlib import Path

import pytest

from scalecurve.hardware.devices import find_device, find_link
from scalecurve_models.networks import shipped
from scalecurve_models.paleo.costs import Rates, costs_of
from scalecurve_models.paleo.parallel import predict_hybrid, predict_model_parallel
from scalecurve_models.paleo.scaling import Platform, predict_scaling, predict_step
from scalecurve_models.paleo.terms import Variant

REFERENCE = Path(__file__).parents[2] / "reference"


def rows(file):
    return list(csv.DictReader((REFERENCE / file).read_text(encoding="utf-8").splitlines()))


def platform(row, link="link"):
    device, comp, comm = row["device"], float(row["ppp_comp"]), float(row["ppp_comm"])
    return Platform(find_device(device), find_link(row[link]), comp, comm)


@pytest.mark.parametrize("network", ["alex_v2", "vgg16"])
def test_layer_times_are_the_given_ones(network):
    given = [row for row in rows("paleo_layers_alexnet_vgg16.csv") if row["net"] == network]
    costs = costs_of(shipped(network))
    rates = Rates.of(find_device("K80"))
    assert len(given) == len(costs.names)
    for row in given:
        batch = int(row["batch"])
        name = "input" if row["layer"] == "data" else row["layer"].replace("-", "_")
        at = costs.names.index(name)
        times = [part[at] for passed in (costs.forward, costs.backward) for part in passed.layer_times(batch, rates)]
        wanted = [float(row[key]) for key in ("fwd_comp_ms", "fwd_mem_ms", "bwd_comp_ms", "bwd_mem_ms")]
        # The file has eight decimals, which is 1e-4 of its smallest numbers.
        assert times == pytest.approx(wanted, rel=1e-6, abs=6e-9), name
        assert costs.parameters[at] == int(row["params"])


def test_steps_of_alexnet_are_the_given_ones():
    for row in rows("paleo_steps_alexnet.csv"):
        step = predict_step(
            shipped(row["net"]),
            platform(row, "network"),
            batch=int(row["batch"]),
            workers=int(row["workers"]),
            scaling=row["scaling"],
        )
        got = {
            "t_fwd_ms": step.forward_ms,
            "t_bwd_ms": step.backward_ms,
            "t_apply_ms": step.update_ms,
            "t_comp_ms": step.compute_ms,
            "comm_OneToAll_ms": step.communication_ms["one_to_all"],
            "comm_TreeAllReduce_ms": step.communication_ms["tree"],
            "comm_Butterfly_ms": step.communication_ms["butterfly"],
            "step_Tree_ms": step.step_ms,
            "throughput_Tree_img_s": step.throughput,
        }
        assert got == pytest.approx({key: float(row[key]) for key in got}, rel=1e-6), row["id"]
        assert step.batch_per_worker == int(row["batch_per_worker"])
        assert costs_of(shipped(row["net"])).parameter_bytes == int(row["params_bytes"])


def test_steps_are_those_of_the_authors_code_for_both_revisions():
    for row in rows("paleo_authors_steps.csv"):
        (step,) = predict_scaling(
            shipped(row["network"]),
            platform(row),
            batch=int(row["batch"]),
            workers=[int(row["workers"])],
            scaling=row["scaling"],
            variant=Variant(row["revision"], pipeline=row["pipeline"] == "1"),
        )
        got = {"forward_ms": step.forward_ms, "backward_ms": step.backward_ms, "update_ms": step.update_ms}
        got |= {f"{name}_ms": time for name, time in step.communication_ms.items()}
        assert got == pytest.approx({key: float(row[key]) for key in got}, rel=1e-8), row


def test_model_and_hybrid_parallelism_are_those_of_the_authors_code():
    for row in rows("paleo_authors_splits.csv"):
        network, batch = shipped(row["network"]), int(row["batch"])
        data, model = predict_hybrid(
            network,
            platform(row),
            batch=batch,
            workers=int(row["workers"]),
            variant=Variant(row["revision"], pipeline=row["pipeline"] == "1"),
        )
        got = {
            "data_forward_ms": data.forward_ms,
            "data_backward_ms": data.backward_ms,
            "data_update_ms": data.update_ms,
            "data_tree_ms": data.communication_ms,
            "model_forward_ms": model.forward_ms,
            "model_backward_ms": model.backward_ms,
            "model_update_ms": model.update_ms,
        }
        if row["forward_lower_ms"]:
            forward, backward = predict_model_parallel(
                network, platform(row), batch=batch, variant=Variant(row["revision"])
            )
            got |= {"forward_lower_ms": forward.least_ms, "forward_upper_ms": forward.most_ms}
            got |= {"backward_lower_ms": backward.least_ms, "backward_upper_ms": backward.most_ms}
        assert got == pytest.approx({key: float(row[key]) for key in got}, rel=1e-8), row


def test_the_release_differs_from_head_as_much_as_it_is_known_to():
    on = Platform(find_device("K80"), find_link("ethernet20"))
    for name, most in (("alex_v2", 0.0065), ("inception_v3", 0.0038), ("nin", 0.0021)):
        head, release = (
            predict_step(shipped(name), on, batch=64, variant=Variant(revision)).compute_ms
            for revision in ("head", "release")
        )
        assert 0 < head / release - 1 <= most
