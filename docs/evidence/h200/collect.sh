#!/usr/bin/env bash
# How the evidence beside this file was obtained, on one machine with 4 H200 GPUs:
#   docs/evidence/h200/collect.sh fidelity|experiment|allreduce|extras OUT-FOLDER
# Needs python3 with torch and the packages of pyproject.toml; nothing is installed. NVLink multicast stays as the machine has it.
set -uo pipefail
stage=$1 out=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$0")/../../.."
export PYTHONPATH="$PWD/api:$PWD/images/worker:$PWD/local:$PWD/analysis${PYTHONPATH:+:$PYTHONPATH}"
here=docs/evidence/h200 work=${WORK:-/tmp/scalebench-evidence}
mkdir -p "$work"

versions() {
    nvidia-smi --query-gpu=index,name,uuid,driver_version,clocks.sm,temperature.gpu --format=csv
    nvidia-smi topo -m
    python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "nccl", torch.cuda.nccl.version())'
    env | grep -E "^(NCCL|TORCH|CUDA|OMP)_" | sort
}

experiment() { # name: run, then report; resumable, since a call may end before it does
    python3 -m scalebench run "$here/$1.yaml" --bundle "$work/$1" --resume -o md 2>&1 | tee "$out/$1.txt"
    python3 -m scalebench report "$work/$1" --out "$work/$1-report" && python3 -m scalebench diagnose "$work/$1" >> "$out/$1.txt"
    tar czf "$out/$1.tar.gz" -C "$work" "$1" "$1-report"
}

case $stage in
fidelity)
    versions | tee "$out/versions.txt"
    python3 benchmarks/fidelity.py --out "$out/fidelity.json" 2>&1 | tee "$out/fidelity.txt" ;;
experiment)
    versions > "$out/versions.txt"
    experiment resnet50 ;;
allreduce)
    experiment allreduce ;;
extras)
    python3 benchmarks/harness_cost.py --device gpu 2>&1 | tee "$out/harness_cost.txt"
    python3 benchmarks/fidelity.py --compile --out "$out/fidelity-compiled.json" 2>&1 | tee "$out/fidelity-compiled.txt" ;;
*) echo "fidelity, experiment, allreduce or extras, not $stage" >&2; exit 2 ;;
esac
