"""Real ranks of a light program: steps of 10 ms, and 2 ms of communication for two, which some windows leave out.

Of two ranks, which never wait for each other within a window, one is slower in every other train window.
"""

import time

from scalecurve_api.record.rank import WindowKind
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.steps.timing import HostClock


class WithoutCommunication:
    """Takes turns with training; there is nothing to put back."""

    kind = WindowKind.no_communication
    method = "left out"

    def enter(self) -> None:
        pass

    def leave(self) -> None:
        pass


session = Session()
bench = Bench(session, HostClock(session.unix), alternate=WithoutCommunication())
communication = 0.002 if session.identity.world > 1 else 0.0
train, kind = 0, WindowKind.no_communication
while bench.step():
    if bench.kind is not kind:
        kind = bench.kind
        train += kind is WindowKind.train
    turn = 0.004 if session.identity.world > 1 and train % 2 == session.identity.rank else 0.0
    time.sleep(0.010 + turn + (communication if kind is WindowKind.train else 0.0))
    bench.loss(1.0)
bench.finish(checksum="same")
