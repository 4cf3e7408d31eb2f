#!/usr/bin/env bash
# One host with eight GPUs (or $GPUS): `eight.sh OUT-FOLDER`, in calls of $LIMIT seconds that go on where the one before ended.
# ResNet-50 on eight is projected from one and from four GPUs, and both projections are recorded before it runs on eight; then
# Horovod, GPT-2 large under FSDP2, and the all-reduce. SMALL=1 tries it on CPUs: GPUS=2 SMALL=1 eight.sh results/eight
set -uo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../../../.."
export PYTHONPATH="$PWD:$PWD/api:$PWD/operator:$PWD/worker:$PWD/local:$PWD/analysis${PYTHONPATH:+:$PYTHONPATH}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
here=docs/evidence/h200/experiments work=${WORK:-/tmp/scalecurve-evidence/eight} most=${GPUS:-8} limit=${LIMIT:-540}
mkdir -p "$work"

counts=(1 2 4)
[ "$most" -gt 4 ] || counts=(1)
few=$(IFS=,; echo "${counts[*]}")
workers() { printf 'spec: {scaling: {workers: [%s]}}\n' "$2" > "$work/$1.yaml"; }
workers few "$few"
workers all "$few,$most"
workers one 1
workers most "$most"
printf 'spec: {scaling: {modes: [weak], workers: [1]}, matrix: {batch.perWorker: [%s, %s]}}\n' $((256 / most)) 256 > "$work/one-batches.yaml"
small() { # name: overlays of the small form
    [ -n "${SMALL:-}" ] || return 0
    data='{source: synthetic, shape: [3, 32, 32], classes: 10}' model=resnet20 options='{channelsLast: null}'
    [ "$1" != gpt2-large-fsdp ] || { data='{source: synthetic, sequenceLength: 32}' model=gpt2_tiny options=null; }
    printf 'spec: {scaling: {batch: {global: 8, perWorker: 4}}, workload: {model: %s, data: %s, options: %s}}\n' "$model" "$data" "$options" > "$work/$1-small.yaml"
    printf -- '--overlay %s --overlay %s ' "$here/eight-small.yaml" "$work/$1-small.yaml"
}
measure() { # bundle, experiment, counts, how to go on
    left=$((limit - SECONDS))
    [ "$left" -gt 20 ] || return 0
    # shellcheck disable=SC2046
    timeout -s INT "$left" python3 -m scalecurve run "$here/$2.yaml" --overlay "$work/$3.yaml" $(small "$2") --bundle "$work/$1" "$4" \
        -o md 2>&1 | tee -a "$out/$1.txt"
    rm -f "$out/$1.zip"
    python3 -m scalecurve pack "$work/$1" --out "$out/$1.zip"
}

if command -v nvidia-smi > /dev/null; then
    { nvidia-smi --query-gpu=index,name,uuid,driver_version --format=csv; nvidia-smi topo -m; } > "$out/versions.txt"
fi
if [ ! -f "$work/recorded" ]; then
    measure collectives projection-collectives most --resume
    measure resnet50-few resnet50 few --resume
    measure resnet50-one projection-resnet50 one-batches --resume
    # shellcheck disable=SC2046
    python3 -m scalecurve predict "$here/resnet50.yaml" --overlay "$work/most.yaml" $(small resnet50) --measured "$work/resnet50-one" \
        --measured "$work/collectives" --record "$work/resnet50-most" -o md 2>&1 | tee "$out/resnet50-predicted.txt" &&
        python3 -m scalecurve predict "$work/resnet50-few" --workers "$most" -o md 2>&1 | tee "$out/resnet50-predicted-from-few.txt" &&
        date -u | tee -a "$out/resnet50-predicted-from-few.txt" > "$work/recorded"
fi
measure resnet50-most resnet50 most --resume
python3 -m scalecurve predict "$work/resnet50-most" --score -o md 2>&1 | tee "$out/resnet50-score.txt"
[ -n "${SMALL:-}" ] || measure horovod horovod all --resume
measure gpt2-large gpt2-large-fsdp all --resume
measure allreduce allreduce most --resume
