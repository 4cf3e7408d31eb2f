"""A short summary for runs without an engine."""

import statistics

from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_worker.record.session import Session


def print_summary(session: Session, record: RankRecord) -> None:
    """Print what was measured over all ranks, on rank 0, when no engine will report it."""
    if session.trial is not None:
        return
    mine = [[w.kind.value, w.samples, w.wall_ns, w.steps] for w in record.windows]
    ranks = session.communicator.all_gather([mine, record.parameter_checksum])
    if session.communicator.rank == 0:
        print("\n".join(summary_lines(ranks, record)), flush=True)


def summary_lines(ranks: list[list[object]], record: RankRecord) -> list[str]:
    """The summary; ``ranks`` holds each rank's windows as (kind, samples, wall ns, steps), and its checksum."""
    windows = [rank[0] for rank in ranks]
    checksums = {rank[1] for rank in ranks}
    train = [
        (sum(w[1] for w in same), max(w[2] for w in same) / 1e9, same[0][3])
        for same in zip(*windows, strict=False)
        if same[0][0] == WindowKind.train.value
    ]
    workers = f"{len(ranks)} worker{'s' if len(ranks) > 1 else ''}"
    if not train:
        return [f"scalecurve: {workers}, no window was completed"]
    throughput = sum(samples for samples, _, _ in train) / sum(wall for _, wall, _ in train)
    rates = [samples / wall for samples, wall, _ in train]
    step_ms = statistics.median(wall / steps for _, wall, steps in train) * 1e3
    lines = [
        f"scalecurve: {workers}, {len(train)} windows of {train[0][2]} steps: "
        f"{throughput:,.1f} {record.sample_unit}/s (windows {min(rates):,.1f} to {max(rates):,.1f}), "
        f"{step_ms:,.3f} ms a step"
    ]
    if record.warmup and not record.warmup.stable:
        lines.append(f"scalecurve: step time had not settled after {record.warmup.steps} warm-up steps")
    if record.finite_loss is False:
        lines.append("scalecurve: the loss was not finite")
    if len(checksums) > 1:
        lines.append("scalecurve: the replicas have diverged, so this was not one training job")
    return lines
