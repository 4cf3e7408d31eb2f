"""kill -9 of the operator at every API call of an experiment of twelve trials, before and after the server has acted.

    python -m benchmarks.operator.kills [--runner Job] [--output json]

Every request, by its kind and the object it is about, kills the operator twice; it is started anew each time. At the
end the experiment must stand as one that nobody disturbed, every job created once, and nothing left behind; otherwise
this script fails. About 250 kills.
"""

from __future__ import annotations

import sys
from collections import Counter

from benchmarks.operator.rig.bars import Figure, parser, report, say
from scalecurve_api.spec.job_kinds import Runner

from tests.cluster.applied import manifest  # isort: skip
from tests.cluster.kills import Sweep, by_object, endure  # isort: skip
from tests.cluster.operator_process import OperatorProcess  # isort: skip
from tests.cluster.proxy import Call, Fault, Proxy  # isort: skip
from tools.devcluster.tier import Tier  # isort: skip

LEAST = 50


def main() -> int:
    options = parser(__doc__ or "")
    options.add_argument("--runner", choices=[runner.value for runner in Runner], default=Runner.job.value)
    chosen = options.parse_args()
    sweep = Sweep(by_object)

    def disturb(proxy: Proxy, operator: OperatorProcess) -> None:
        sweep.victim = lambda: operator.pid
        proxy.fault = told

    def told(call: Call) -> Fault | None:
        fault = sweep(call)
        if fault is not None and len(sweep.killed) % 20 == 0:
            say(f"{len(sweep.killed)} kills")
        return fault

    with Tier() as tier:
        tier.add_nodes(4)
        namespace = tier.namespace("kills")
        tree = manifest(namespace, runner=Runner(chosen.runner), workers=(1, 2, 3), repetitions=4)
        endured = endure(tier, tree, disturb, timeout_s=3600)
    kinds = Counter((point[0], forwarded) for point, forwarded in sweep.killed)
    run = f"12 trials, {chosen.runner}"
    figures = [
        Figure(run, f"kills short of {LEAST}", max(0, LEAST - len(sweep.killed)), 0),
        Figure(run, "points where only one side was killed", len({p for p, _ in sweep.killed} - sweep.points)),
        Figure(run, "kills", len(sweep.killed)),
        Figure(run, "starts", endured.starts),
        Figure(run, "API calls", len(endured.calls)),
        Figure(run, "time", endured.seconds, unit="s"),
    ]
    for kind in sorted({kind for kind, _ in kinds}):
        before, after = kinds[kind, False], kinds[kind, True]
        say(f"{kind:44} killed {before:3} times before and {after:3} times after the server acted")
    return report(figures, [[*point, forwarded] for point, forwarded in sweep.killed], chosen.output)


if __name__ == "__main__":
    sys.exit(main())
