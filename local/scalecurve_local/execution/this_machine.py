"""The carrier of this machine (``scalecurve_local.carrier``): devices that are locked, processes that are supervised.

No process outlives its engine: its supervisor ends with it, and has the locks of the bundle and the devices until then.
So after a restart nothing is left to wait for, and how an attempt ended is in its folder, where its processes write.
"""

import os
import platform
import select
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypedDict

from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import count
from scalecurve_local.attempt import AttemptFolder
from scalecurve_local.carrier import State
from scalecurve_local.devices.cores import survey_cores
from scalecurve_local.devices.gpus import survey_gpus
from scalecurve_local.devices.locks import Locks, device_lock_files, take
from scalecurve_local.devices.shares import Allotment, Machine, allot
from scalecurve_local.errors import InputError, UnavailableError
from scalecurve_local.execution.commands import check_installed, check_variables
from scalecurve_local.execution.forking.client import ForkServer
from scalecurve_local.execution.running_trial import RunningTrial
from scalecurve_local.supervision import supervisor
from scalecurve_local.supervision.orphans import end_orphans, remove_temporary


def survey() -> Machine:
    """The cores and GPUs that a run may use.

    Raises:
        UnavailableError: when ``CUDA_VISIBLE_DEVICES`` names what is not there.
    """
    return Machine(survey_cores(), survey_gpus(os.environ))


class MachineOptions(TypedDict, total=False):
    """How to run on this machine."""

    oversubscribe: bool
    wait: bool
    """For devices that another run holds; True by default."""
    metrics_port: int | None
    fork_server: ForkServer | None
    """Starts the trials that suit it."""


class ThisMachine:
    """The processes of one session."""

    def __init__(self, options: MachineOptions) -> None:
        self._options = options
        self._hide_gpus = False
        self._allotments: dict[Path, Allotment] = {}
        self._locks = Locks([])
        self._running: dict[str, RunningTrial] = {}

    def admit(
        self, bundle: Path, spec: ExperimentSpec, trials: Sequence[TrialSpec], earlier: Mapping[str, TrialRecord]
    ) -> Sequence[str]:
        """Divide the machine among the workers, and check that what they need is installed."""
        if platform.system() != "Linux":
            raise UnavailableError(f"experiments run on Linux only (prctl, /proc), and this is {platform.system()}")
        machine = survey()
        allotment = allot(trials, machine, self._options.get("oversubscribe", False))
        _refuse_other_cores(bundle, spec, allotment, earlier)
        check_installed(trials)
        check_variables(spec.workload, os.environ)
        self._hide_gpus = bool(machine.gpus)
        self._allotments[bundle.absolute()] = allotment
        return allotment.notes

    @contextmanager
    def hold(self, say: Callable[[str], None], stopped: Callable[[], bool]) -> Iterator[Callable[[Path], None]]:
        """Lock the devices of all bundles at once, and end what still runs when the session ends."""
        devices = sorted({name for allotment in self._allotments.values() for name in allotment.locks})
        lock = partial(take, bundle=next(iter(self._allotments)), say=say, stopped=stopped)

        def keep(file: Path) -> None:
            self._locks.descriptors += lock([file], "this bundle", wait=False).descriptors
            if ended := end_orphans():
                say(f"ended {count(ended, 'process', 'processes')} left by an earlier run")

        try:
            files, wait = device_lock_files(devices), self._options.get("wait", True)
            self._locks.descriptors += lock(files, "a device of this run", wait=wait).descriptors
            yield keep
        finally:
            self.stop(self._running, at_once=False)
            while self._running:
                self._running.popitem()[1].end()
            self._locks.release()

    def start(self, trial: TrialSpec, attempt: AttemptFolder, paired: str | None) -> str:
        """Start the attempt's supervisor with the share of its trial."""
        share = self._allotments[attempt.folder.root].shares[trial.name]
        port, server = self._options.get("metrics_port"), self._options.get("fork_server")
        running = RunningTrial(trial, attempt, share, self._locks.descriptors, port, self._hide_gpus, paired, server)
        self._running[running.id] = running
        return running.id

    def poll(self, ids: Collection[str], wait_s: float) -> Mapping[str, State]:
        """Wait for the end of a supervisor; what was collected, or began before a restart, is unknown."""
        descriptors = {id: self._running[id].pidfd for id in ids if id in self._running}
        watch = select.poll()
        for descriptor in descriptors.values():
            watch.register(descriptor, select.POLLIN)
        ended = dict(watch.poll(wait_s * 1000)) if descriptors else {}
        states = {id: State.ended if pidfd in ended else State.running for id, pidfd in descriptors.items()}
        return dict.fromkeys(ids, State.unknown) | states

    def stop(self, ids: Collection[str], at_once: bool) -> None:
        """Tell the supervisors."""
        for id in ids:
            if (running := self._running.get(id)) is not None:
                running.send(supervisor.KILL if at_once else supervisor.STOP)

    def collect(self, id: str, attempt: AttemptFolder) -> None:
        """Report the end of a supervisor that could not do so itself: all else is in the folder already."""
        if self.poll([id], 0)[id] is State.ended:
            self._running.pop(id).report()

    def attach(self, id: str) -> None:
        """Remove the temporary folder that a killed supervisor left; its processes ended when the bundle was locked."""
        remove_temporary(id)


def _refuse_other_cores(
    bundle: Path, spec: ExperimentSpec, allotment: Allotment, earlier: Mapping[str, TrialRecord]
) -> None:
    """The workers of added points have as many cores as those before, or the curve would bend for that.

    Raises:
        InputError: when they would have another number.
    """
    for name, record in earlier.items():
        share = allotment.shares[name]
        if not record.topology or share.gpus or not share.cores:
            continue
        before, now = len(record.topology[0].cores), len(share.cores[0])
        if before != now:
            raise InputError(
                f"{bundle}: each worker had {count(before, 'core')}, and would have {now} with "
                f"{max(spec.scaling.workers)} workers: run all worker counts anew, or begin with "
                "spec.resources.limits.cpu, which holds for all"
            )
