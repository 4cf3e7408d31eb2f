#!/bin/sh
# Horovod in an image, beside the torch or TensorFlow that it has. What builds it is gone when this ends.
set -eu
python=/opt/scalecurve/bin/python
missing=
for each in cmake make g++ patch; do
    dpkg-query --show --showformat='${db:Status-Status}' "$each" 2>/dev/null | grep -qx installed || missing="$missing $each"
done
[ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || missing="$missing libpython3-dev"
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $missing
python3 -m venv /tmp/pip
install() {
    /tmp/pip/bin/pip "$@" --quiet --no-cache-dir ${INDEX:+--index-url "$INDEX"} -c /opt/scalecurve/constraints.txt
}
# Horovod imports packaging, and its own metadata does not ask for it.
install --python "$python" install packaging
install install --target /tmp/tools pip packaging setuptools wheel
PYTHON="$python" PYTHONPATH=/tmp/tools SCALECURVE_CACHE=/tmp/horovod \
    env PIP_NO_CACHE_DIR=1 ${INDEX:+PIP_INDEX_URL="$INDEX"} sh "$(dirname "$0")/install.sh"
apt-get purge --yes --auto-remove $missing
rm -rf /tmp/pip /tmp/tools /tmp/horovod /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
"$python" - <<'END'
import importlib
import importlib.util

import mpi4py

mpi4py.rc.initialize = False
import mpi4py.MPI  # noqa: E402, F401  (the wheel knows the place of MPI's library where it was built, and no other)

for each in ("torch", "tensorflow"):
    if importlib.util.find_spec(each):
        assert importlib.import_module(f"horovod.{each}").mpi_built(), each
END
