from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scalecurve_worker.process.injection import COMMAND_PID_ENV, FOLDER, OWN_RANKS_ENV, inject
from tests.waiting import PATIENCE_S

HOOKS = """
import sys, types
import scalecurve_worker.integrations.instrument as package
package.hooks = sys.modules["scalecurve_worker.integrations.instrument.hooks"] = types.ModuleType("hooks")
package.hooks.imported = lambda module: print("hooked", module.__name__)
package.hooks.ended = lambda command: None
"""


def run(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python with our hooks and a folder of modules, in which ``torch`` is nothing but a file."""
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", **environment}
    inject(env)
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_environment_of_a_command() -> None:
    env = {"PYTHONPATH": "/a:/b", OWN_RANKS_ENV: "torchrun"}
    inject(env)
    inject(env)
    assert env == {"PYTHONPATH": f"{FOLDER}:/a:/b", COMMAND_PID_ENV: str(os.getpid())}


def test_the_environments_own_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __file__\n")
    done = run(tmp_path, "import sitecustomize; print(mine, sitecustomize.__file__)")
    assert done.stderr == ""
    assert done.stdout.split() == [str(tmp_path / "sitecustomize.py")] * 2


def test_an_error_in_it_is_as_loud_as_without_us(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    done = run(tmp_path, "print('still runs')")
    assert done.stdout == "still runs\n"
    assert "theirs" in done.stderr


def test_a_program_without_torch_imports_nothing_of_ours(tmp_path: Path) -> None:
    done = run(
        tmp_path, "import sys; print([name for name in sys.modules if name.startswith(('scalecurve', 'torch'))])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_watched_module_keeps_its_loader(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("flag = 1\n")
    look = "import inspect, torch\nprint(inspect.getsource(torch).strip(), vars(torch.__spec__.loader).keys())\n"
    done = run(tmp_path, HOOKS + look)
    assert done.stdout == "hooked torch\nflag = 1 dict_keys(['name', 'path'])\n", done.stderr


def test_another_finder_of_this_kind(tmp_path: Path) -> None:
    """Tracers and coverage tools wait for imports, too, and ask all other finders as we do."""
    (tmp_path / "torch.py").write_text("print('imported once')\n")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Theirs:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        specs = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)\n"
        "        return next(filter(None, specs), None)\n"
        "sys.meta_path.insert(0, Theirs())\n"
    )
    done = run(tmp_path, HOOKS + "import torch\n")
    assert done.stdout == "imported once\nhooked torch\n", done.stderr


def test_a_python_without_scalecurve(tmp_path: Path) -> None:
    """It is refused when it imports torch, and left alone before."""
    (tmp_path / "torch.py").write_text("")
    hide = "import importlib.util\nimportlib.util.find_spec = lambda name: None\n"
    assert run(tmp_path, hide + "print('fine')").stdout == "fine\n"
    done = run(tmp_path, hide + "import torch\nprint('never')")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no scalecurve_worker, so its steps cannot be timed: install scalecurve there" in done.stderr
