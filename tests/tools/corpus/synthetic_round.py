"""A round of results as the tests write it, of runs that never were, in a git repository."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

START = 1.7e9
APACHE = b"Apache License\nVersion 2.0, January 2004\n"


def event(at_s: float, key: str, value: Any = None, **metadata: Any) -> str:
    tree = {"namespace": "", "time_ms": int(at_s * 1000), "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f":::MLLOG {json.dumps({**tree, 'metadata': metadata})}"


def log(
    *,
    benchmark: str = "llama2_70b_lora",
    start: float = START,
    batch: int = 8,
    accumulation: int = 1,
    step_s: float = 0.5,
    logged: str = "train_step_time",
    figure: float | None = None,
    blocks: int = 4,
    success: bool = True,
    states_length: bool = False,
) -> bytes:
    """Blocks of 100 steps with an evaluation of 3 s after each; ``figure`` is logged in place of the true one.

    The start of a block states how many samples were trained, or how many the block has.
    """
    true = step_s if logged.startswith("train_step") else batch / step_s
    lines = [
        event(start - 9, "submission_benchmark", benchmark),
        event(start - 9, "global_batch_size", batch),
        event(start - 9, "gradient_accumulation_steps", accumulation),
        event(start, "run_start"),
    ]
    now, count = start, 0
    for _ in range(blocks):
        lines.append(event(now, "block_start", samples_count=100 * batch if states_length else count))
        now, count = now + 100 * step_s, count + 100 * batch
        if logged:
            lines.append(event(now, "tracked_stats", {logged: true if figure is None else figure}, step=count))
        lines += [event(now, "block_stop", samples_count=count), event(now, "eval_start", samples_count=count)]
        now += 3
        lines.append(event(now, "eval_stop", samples_count=count))
    lines.append(event(now, "run_stop", status="success" if success else "aborted"))
    return ("banner of a program\n" + "\n".join(lines) + "\n").encode()


def system(nodes: object = 1, devices: object = 8, model: str = "NVIDIA H100-SXM5-80GB") -> bytes:
    tree = {
        "number_of_nodes": nodes,
        "accelerators_per_node": devices,
        "accelerator_model_name": model,
        "accelerator_interconnect": "NVLink",
        "host_networking": "N/A",
        "framework": "A framework 1.0",
        "other_software_stack": [{"nccl_version": "2.25", "python": "3.12"}],
    }
    return json.dumps(tree).encode()


def logs(
    name: str = "8xH100", submitter: str = "Acme", benchmark: str = "llama2_70b_lora", runs: int = 3, **facts: Any
) -> dict[str, bytes]:
    """The system and the logs of a point, by path."""
    files = {f"{submitter}/systems/{name}.json": system()}
    for run in range(runs):
        text = log(benchmark=benchmark, **{"start": START + 1000 * run, **facts})
        files[f"{submitter}/results/{name}/{benchmark}/result_{run}.txt"] = text
    return files


def write_checkout(root: Path, files: Mapping[str, bytes]) -> Path:
    """A repository with one commit."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return committed(root)


def committed(root: Path) -> Path:
    """All files of a folder as a repository with one commit."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "results")):
        subprocess.run(["git", "-C", root, *command], check=True)
    return root


def write_bare(path: Path, files: Mapping[str, bytes]) -> Path:
    """A bare repository with one commit."""
    work = write_checkout(path.parent / f"{path.name}.work", files)
    subprocess.run(["git", "clone", "-q", "--bare", work, path], check=True)
    return path
