"""One trial of a bundle: what was planned, and its record and files as far as they are there."""

from dataclasses import dataclass
from pathlib import Path

from scalecurve.bundle.files import BundleFiles
from scalecurve.bundle.problem import FileError
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

TRIALS_FOLDER = "trials"


@dataclass(frozen=True)
class Trial:
    """One planned trial; ``record`` is None until it has ended (and for good when its record cannot be used).

    ``folder`` is where its files are, in a packed bundle below the file's own path; ``read`` reads them in both.
    One that is ``set_aside`` counts for nothing, however it ended.
    """

    spec: TrialSpec
    folder: Path
    record: TrialRecord | None = None
    files: BundleFiles | None = None
    set_aside: bool = False

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of one of its files.

        Raises FileError when it is missing, larger than ``limit``, damaged or unreadable.
        """
        if self.files is None:
            raise FileError("missing")
        return self.files.read(f"{TRIALS_FOLDER}/{self.folder.name}/{name}", limit)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def phase(self) -> TrialPhase | None:
        return None if self.record is None else self.record.phase

    @property
    def good(self) -> bool:
        return self.phase is TrialPhase.succeeded and not self.set_aside
