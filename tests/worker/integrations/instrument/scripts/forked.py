"""A script that knows nothing of ScaleCurve, measured in a rank that has loaded torch already.

forked.py SCRIPT [ARGUMENT...]
"""

from __future__ import annotations

import importlib
import runpy
import sys

from scalecurve_worker.process.injection import FOLDER, inject
from scalecurve_worker.process.startup import prepare

prepare()
inject()
runpy.run_path(str(FOLDER / "sitecustomize.py"), run_name="sitecustomize")
# The watch for imports comes too late for torch itself, and to load the hooks before the watch is no use.
hooks = importlib.import_module("scalecurve_worker.integrations.instrument.hooks")
hooks.imported(sys.modules["torch"])
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
