"""A training command as it is typed, and the experiment that it becomes."""

import shlex
from dataclasses import replace

import pytest

from scalecurve.planning.script_command import CommandError, Measured, experiment_text, parse_command
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.validation.validate import validate_text


@pytest.mark.parametrize(
    ("typed", "words", "launcher"),
    [
        ("python train.py --lr 1", "python train.py --lr 1", "processes"),
        ("./train.sh -x", "./train.sh -x", "processes"),
        ("torchrun train.py", "python train.py", "torchrun"),
        ("torchrun --standalone --nproc-per-node={workers} train.py -b 8", "python train.py -b 8", "torchrun"),
        ("/opt/bin/torchrun --nnodes 1 --nproc_per_node 4 -m pkg.train", "python -m pkg.train", "torchrun"),
        ("torchrun --no-python ./train --a", "./train --a", "torchrun"),
        ("python3 -m torch.distributed.run --nproc-per-node 2 t.py", "python t.py", "torchrun"),
        ("python -m torch.distributed.launch --use-env t.py", "python t.py", "torchrun"),
        ("accelerate launch --multi_gpu --num_processes 8 t.py --x", "python t.py --x", "torchrun"),
        ("deepspeed --num_gpus=4 t.py --deepspeed --deepspeed_config z.json",
         "python t.py --deepspeed --deepspeed_config z.json", "torchrun"),
        ("mpirun -np {workers} python t.py", "python t.py", "mpirun"),
        ("mpiexec -n 4 ./t", "./t", "mpirun"),
    ],
)  # fmt: skip
def test_a_launcher_is_taken_off(typed: str, words: str, launcher: str) -> None:
    command = parse_command(shlex.split(typed))
    assert shlex.join(command.words) == words
    assert command.launcher == launcher


@pytest.mark.parametrize(
    ("typed", "ranks"),
    [
        ("torchrun --nproc-per-node 4 t.py", 4),
        ("torchrun --nproc-per-node gpu t.py", None),
        ("accelerate launch --num_processes=8 t.py", 8),
        ("deepspeed --num_gpus 2 t.py", 2),
        ("mpirun -np 16 ./t", 16),
        ("python t.py", None),
    ],
)
def test_the_ranks_that_were_typed_bound_the_worker_counts(typed: str, ranks: int | None) -> None:
    assert parse_command(shlex.split(typed)).ranks == ranks


def test_variables_are_kept_and_what_has_no_effect_is_named() -> None:
    command = parse_command(shlex.split("A=1 B='x y' mpirun --bind-to none -x C=2 --mca btl tcp -np 2 python t.py"))
    assert command.env == {"A": "1", "B": "x y", "C": "2"}
    assert command.dropped == ("--bind-to none", "--mca btl tcp")
    precise = parse_command(shlex.split("accelerate launch --mixed_precision bf16 --main_process_port 29501 t.py"))
    assert precise.env == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    assert precise.dropped == ("--main-process-port 29501",)


@pytest.mark.parametrize(
    ("typed", "batch"),
    [
        ("t --batch-size 64", 64),
        ("t --batch_size=8", 8),
        ("t -b 4", 4),
        ("t --per_device_train_batch_size 2", 2),
        ("t --batch {batchPerWorker}", None),
        ("t --batch-size", None),
        ("t --epochs 3", None),
    ],
)
def test_the_batch_that_the_command_states(typed: str, batch: int | None) -> None:
    command = parse_command(shlex.split(typed))
    assert command.batch_option == batch
    assert command.takes_batch == ("{" in typed)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("python examples/Train_GPT2.py", "train-gpt2"),
        ("python -u -m pkg.train", "pkg-train"),
        ("./run.sh", "run-sh"),
        ("python " + "x" * 90 + ".py", "x" * 40),
        ("python ___.py", "command"),
    ],
)
def test_the_name_is_that_of_the_script(typed: str, name: str) -> None:
    assert parse_command(shlex.split(typed)).name == name


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("", "no command after --"),
        ("A=1", "no command after --"),
        ("torchrun", "no script"),
        ("torchrun --nproc-per-node", "expected a value"),
        ("torchrun --nnodes 2 t.py", "--nnodes 2"),
        ("torchrun --wrong t.py", "--wrong"),
        ("accelerate launch --config_file c.yaml t.py", "--config_file"),
        ("accelerate launch --num_machines 2 t.py", "--num_machines 2"),
        ("deepspeed --hostfile h t.py", "--hostfile"),
        ("mpirun --host a,b ./t", "--host"),
        ("mpirun -np 2", "no program"),
    ],
)
def test_what_no_experiment_can_carry(typed: str, names: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_command(shlex.split(typed))
    assert names in str(refused.value)


def test_the_experiment_is_valid_and_carries_the_command() -> None:
    command = parse_command(shlex.split("N=1 torchrun --nproc-per-node {workers} t.py --batch {batchPerWorker}"))
    text = experiment_text(command, [1, 2, 4], [Mode.strong, Mode.weak], Measured(5), 16)
    validated = validate_text(text, "command")
    assert not validated.problems
    (experiment,) = validated.experiments
    workload, scaling = experiment.spec.workload, experiment.spec.scaling
    assert isinstance(workload, CustomWorkload)
    assert workload.command == ["python", "t.py", "--batch", "{batchPerWorker}"]
    assert workload.env == {"N": "1"}
    assert (scaling.workers, scaling.batch.per_worker, scaling.batch.global_) == ([1, 2, 4], 16, 64)
    assert experiment.spec.measure.repetitions == 5
    weak = validate_text(experiment_text(command, [1], [Mode.weak], Measured(1), 16), "command").experiments[0]
    assert weak.spec.scaling.batch.global_ is None


def test_one_process_for_all_gpus_is_a_field_of_the_experiment() -> None:
    command = replace(parse_command(["python", "t.py", "--batch", "{globalBatch}"]), single_process=True)
    validated = validate_text(experiment_text(command, [1, 2], [Mode.weak], Measured(1, 6), 8), "command")
    assert not validated.problems
    workload = validated.experiments[0].spec.workload
    assert isinstance(workload, CustomWorkload)
    assert [workload.processes(count) for count in (1, 4)] == [1, 1]
