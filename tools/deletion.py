"""Show that a feature can be removed: delete its files in a copy of the last commit, and check what is left.

python -m tools.deletion deepspeed tests/api ...    # exit 1 if what is left needs the feature; tests of these folders
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = "git ls-files api worker operator local analysis tools tests benchmarks"
FEATURES = {
    "corpus": "scalecurve/corpus/ cli/corpus tests/analysis/corpus/ cli/test_corpus.py tools/corpus/ among_published published_checks",
    "importing": "importing cli/imported test_import.py tools/corpus/",
    "timelines": "timelines cli/gate cli/history test_gate test_history",
    "search": "search planning/halving test_halving",
    "deepspeed": "deepspeed",
    "horovod": "horovod",
    "superbench": "superbench",
    "noise_scale": "noise_scale noise_meter critical_batch",
    "quantization": "quantization",
    "compression": "compression",
    "projection": "projection",
    "layouts": "layouts best_layout",
    "mesh": "strategies/mesh extras/layouts layout_facts pipelines layouts best_layout",
    "pipelines": "pipelines",
    "scalecurve_models": "scalecurve_models tests/models benchmarks/prediction test_backtest",
}
"""What the paths of a feature's files have in them."""


def run(folder: Path, command: str) -> str:
    """Run a command in the folder and return its output, or raise RuntimeError with it."""
    done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    return done.stdout


def delete(feature: str, folder: Path) -> list[str]:
    """Delete the feature's files, and the lines that register them; return the modules that are gone."""
    files = [file for file in run(folder, ROOMS).split() if any(part in file for part in FEATURES[feature].split())]
    run(folder, f"git rm -q {' '.join(files)}")
    names = (file.removesuffix(".py").removesuffix("/__init__").split("/", 1)[1] for file in files)
    modules = [name.replace("/", ".") for name in names if name.startswith("scalecurve")]
    name = f"(?:{'|'.join(map(re.escape, modules))})"
    lines = {
        ".py": rf'^ +(?:.*"{name}(?::\w+)?".*,|from {name} import (\w+) as \1)\n',
        ".toml": rf'^\S+ = "{name}(?::\w+)?"\n|"(?:[^"]* -> )?{name}(?:\.\*+)?(?: -> [^"]*)?"(?:, ?)?',
    }
    for path in (folder / file for file in run(folder, "git ls-files '*.py' pyproject.toml").split()):
        path.write_text(re.sub(lines[path.suffix], "", path.read_text(), flags=re.M))
    return modules


def main(feature: str, *tests: str) -> None:
    """Check generated files, types, imports and tests without the feature, and print who still names it."""
    with tempfile.TemporaryDirectory() as made:
        folder, python = Path(made) / "copy", sys.executable
        run(ROOT, f"git clone -q --shared . {folder}")
        modules = delete(feature, folder)
        run(folder, f"{python} -m venv --without-pip .venv")
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        next(folder.glob(".venv/lib/*/site-packages")).joinpath("root.pth").write_text(packages)
        python = f"{folder}/.venv/bin/python"
        run(folder, f"{sys.executable} -m pip -q --python {python} install --no-deps --no-build-isolation -e .")
        run(folder, f"{python} -m tools.generated --write")
        run(folder, f"{python} -m mypy --cache-dir {ROOT}/.mypy_cache/{feature}")
        run(folder, f"{python} -c 'from importlinter.cli import lint_imports_command as c; c()'")
        print(run(folder, f"{python} -m pytest -q {' '.join(tests)}")[-200:])
        print(*modules)


if __name__ == "__main__":
    main(*sys.argv[1:])
