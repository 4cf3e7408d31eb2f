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
    "corpus": "**/corpus/** **/*corpus*.py **/*among_published*.py **/repetition_noise.py",
    "search": "analysis/**/search/** analysis/**/*search*.py tests/**/*search*.py",
}
"""Globs of git for the Python files of each feature, with its tests."""
ROOMS = ("api", "operator", "worker", "local", "analysis", "tests")


def run(folder: Path, *command: str) -> str:
    """Run a command in the folder and return its output, or raise RuntimeError with it."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return done.stdout


def delete(feature: str, folder: Path) -> list[str]:
    """Delete the files, and the lines of pyproject.toml that name their modules alone; return the modules."""
    globs = (f":(glob){room}/{glob}" for glob in FEATURES[feature].split() for room in ROOMS)
    files = run(folder, "git", "ls-files", *globs).split()
    run(folder, "git", "rm", "-q", *files)
    modules = [".".join(Path(file).with_suffix("").parts[1:]).removesuffix(".__init__") for file in files]
    named = re.compile(rf'.*"(?:{"|".join(map(re.escape, modules))})(?::\w+| ->[^"]*|[.][*]+)?",?(?: .*)?\n')
    project = folder / "pyproject.toml"
    project.write_text("".join(line for line in project.read_text().splitlines(True) if not named.fullmatch(line)))
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
