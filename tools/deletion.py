"""Prove that a feature can be removed: delete its files in a copy of the last commit, and check what is left there.

python -m tools.deletion corpus [tests/analysis ...]    # exit 1 if anything that remains needs the feature
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FEATURES = {
    "corpus": "scalecurve/corpus/** *corpus_verbs.py cli/corpus.py *among_published.py *repetition_noise.py "
    "*published_checks.py analysis/corpus/** test_corpus.py test_decisive.py tools/corpus/** tools/corpus/*",
    "importing": "scalecurve/importing/** *importing_verbs.py cli/imported.py analysis/importing/** "
    "cli/test_import*.py tools/corpus/**",
}
"""Globs, below any folder, for the Python files of each feature and its tests."""


def run(folder: Path, *command: str) -> str:
    """Run a command in the folder and return its output, or raise RuntimeError with it."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return done.stdout


def delete(feature: str, folder: Path) -> list[str]:
    """Delete the feature's files, and the lines that register their modules; return the modules."""
    files = run(folder, "git", "ls-files", *(f":(glob)**/{glob}" for glob in FEATURES[feature].split())).split()
    run(folder, "git", "rm", "-q", *files)
    names = (".".join(Path(file).with_suffix("").parts[1:]).removesuffix(".__init__") for file in files)
    modules = [name for name in names if name.startswith("scalecurve")]
    name = f"(?:{'|'.join(map(re.escape, modules))})"
    line = re.compile(rf'\s*(?:[\w"-]+(?: =|:) "{name}(?::\w+)?",?|from {name} import (\w+) as \1|"[^"]*{name}[^"]*",)\s*')
    for path in (folder / file for file in run(folder, "git", "ls-files", "*.py", "pyproject.toml").split()):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(text for text in lines if not line.fullmatch(text)))
    return modules


def main(feature: str, *tests: str) -> None:
    """Check types, imports, generated files and tests without the feature, then print who still names it."""
    with tempfile.TemporaryDirectory() as made:
        folder, python = Path(made) / "copy", f"{made}/copy/.venv/bin/python"
        run(ROOT, "git", "clone", "-q", "--shared", ".", str(folder))
        modules = delete(feature, folder)
        run(folder, sys.executable, "-m", "venv", "--without-pip", ".venv")
        for site in folder.glob(".venv/lib/*/site-packages"):
            (site / "root.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")))
        run(
            folder,
            sys.executable,
            "-m",
            "pip",
            "-q",
            "--python",
            python,
            "install",
            "--no-deps",
            "--no-build-isolation",
            "-e",
            ".",
        )
        run(folder, python, "-m", "tools.generated", "--write")
        run(folder, python, "-m", "mypy")
        run(folder, python, "-c", "from importlinter.cli import lint_imports_command as c; c()")
        print(
            run(folder, python, "-m", "pytest", "-q", "-m", "not processes and not alone", *(tests or ("tests",)))[
                -200:
            ]
        )
        print(
            "still named in:",
            *run(folder, "git", "grep", "-lwE", "|".join([feature, *modules]), "--", "*.py", "*.toml").split(),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
