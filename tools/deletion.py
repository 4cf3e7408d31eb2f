"""Show that a feature can be removed: delete its files in a copy of the last commit, and check what is left there.

python -m tools.deletion deepspeed COPY tests/api ...    # exit 1 if what is left, or one of these tests of it, fails"""

import re
import subprocess
import sys
from pathlib import Path

from tools import ROOT

FEATURES = {  # how the paths of what stands outside the folders of its name read
    "corpus": "cli.test_corpus|published_checks",
    "deepspeed": "deepspeed",
    "layouts": "(cli|scripts).(test_)?layouts|layout_legality|synthetic_layout|checks.test_layout|"
    "test_(mesh|parallelism)|planning.test_(candidates|memory)",
    "llamafactory": "llama-?factory",
    "manifest": "from_manifest|manifest_|cli.experiment",
    "probe": "(cli|cluster).(test_)?(cli_)?probe|slow_nodes",
    "search": "cli.test_search",
    "superbench": "superbench",
    "timelines": "cli.test_history",
}


def run(folder: Path, command: str, *words: str) -> str:
    done = subprocess.run([*command.split(), *words], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else sys.exit(f"{command} {words}\n{done.stdout}{done.stderr}")


def delete(feature: str, folder: Path) -> None:
    """Delete the feature's folders, what stands outside them, and the lines that register its modules."""
    paths = rf"^((tests/)?(tools/)?|\S+/features/){feature}/|/scalecurve_{feature}/|{FEATURES[feature]}"
    files = run(folder, "git ls-files :!changelog.d :!docs :!images :!manifests").split()
    run(folder, "git rm -q", *(files := [file for file in files if re.search(paths, file)]))
    name = "|".join(re.findall(r"/(scalecurve\S*?)(?:/__init__)?\.py", " ".join(files))).replace("/", "[._]")
    entry = rf'^ +(?:"[\w.-]+": .*"(?:{name})[:"].*,|from (?:{name}) import .*)\n|^\S+ = "(?:{name})[:"].*\n'
    item = rf'"(?:[^"]* -> )?(?:{name})(?:\.\*+)?(?: -> [^"]*)?",? ?'
    for path in (folder / file for file in run(folder, "git ls-files *.py pyproject.toml :!docs").split()):
        path.write_text(re.sub(entry if path.suffix == ".py" else f"{entry}|{item}", "", path.read_text(), flags=re.M))


def main(feature: str, copy: str, *tests: str) -> None:
    folder, python = Path(copy).resolve(), ".venv/bin/python"
    run(ROOT, "git clone -q --shared .", str(folder))
    delete(feature, folder)
    run(folder, f"{sys.executable} -m venv --without-pip .venv")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    next(folder.glob(".venv/lib/*/site-packages")).joinpath("installed.pth").write_text(packages)
    run(folder, f"{sys.executable} -m pip -q --python {python} install --no-deps --no-build-isolation -e .")
    run(folder, f"{python} -m tools.generated --write")
    run(folder, f"{python} -c", "from importlinter.cli import lint_imports_command as check; check()")
    run(folder, f"{python} -m mypy --cache-dir {ROOT}/.mypy_cache/deletion")
    print(run(folder, f"{python} -m pytest -q", *tests).splitlines()[-1])
    names = rf"features[./]{feature}\b|scalecurve_{feature}|{FEATURES[feature]}"
    print(run(folder, f"git grep -liE {names} -- :!docs/evidence :!*change* :!docs/explanation/beside-*"))


if __name__ == "__main__":
    main(*sys.argv[1:])
