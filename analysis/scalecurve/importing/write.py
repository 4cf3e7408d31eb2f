"""Write an imported bundle: the same files that an engine leaves, and a ledger that names the sources."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from scalecurve.bundle.record_file import EXPERIMENT_FILE, RECORD_FILE
from scalecurve.bundle.trial import TRIALS_FOLDER
from scalecurve.importing.compose import Composed
from scalecurve.importing.reading import SourceError
from scalecurve_api.files import Within
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.spec.experiment import ScalingExperiment


def refuse_unless_empty(bundle: Path) -> None:
    """Raises SourceError when something is at the place of the bundle."""
    if bundle.is_symlink() or (bundle.exists() and (not bundle.is_dir() or any(bundle.iterdir()))):
        raise SourceError(f"{bundle}: exists and is not an empty folder; choose another --into")


def write_bundle(bundle: Path, composed: Composed, sources: Sequence[Path]) -> None:
    """Write all files; the ledger gets the sha256 of every file of the ``sources``.

    Raises SourceError when the folder is not empty, OSError when it cannot be written.
    """
    refuse_unless_empty(bundle)
    digests = _digests(sources)
    bundle.mkdir(parents=True, exist_ok=True)
    root = Within(bundle)
    text = _experiment_text(composed.experiment, digests).encode()
    (root / EXPERIMENT_FILE).write(text)
    stored = {}
    for record in composed.records:
        folder = root / TRIALS_FOLDER / record.trial.name
        folder.make()
        stored[record.trial.name] = record.stored()
        (folder / RECORD_FILE).write(stored[record.trial.name])
    ledger = LedgerFile(bundle)
    ledger.begin(text, make_plan(composed.experiment).trials, {})
    ledger.imported(stored, digests)


def _experiment_text(experiment: ScalingExperiment, sources: Iterable[str]) -> str:
    """``experiment.yaml``, under a line that names what it was made from."""
    tree = json.loads(experiment.model_dump_json(by_alias=True, exclude_none=True, exclude_unset=True))
    names = ", ".join(sources).encode("ascii", "backslashreplace").decode()
    return f"# Imported from {names}; measured elsewhere, not checked by ScaleCurve.\n" + yaml.safe_dump(
        tree, sort_keys=False, allow_unicode=True
    )


def _digests(sources: Sequence[Path]) -> dict[str, str]:
    """sha256 of every file of the sources, by its name, or its path below the folder that was named."""
    digests = {}
    for source in sources:
        files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
        for path in files:
            name = str(Path(source.name) / path.relative_to(source)) if source.is_dir() else path.name
            if name in digests:
                name = str(path)
            with path.open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests
