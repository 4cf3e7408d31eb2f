#!/usr/bin/env bash
# Produces what docs/evidence/gpu shows of layouts, of explained GPT-2 and of nccl-tests, on one machine with two GPUs, and the study of
# language models, the spread between machines, memory and batches predicted before their runs, on one GPU:
#   docs/evidence/gpu/scripts/collect.sh layouts|ddp|explain|explained|models|nccltests|llm|between|memory|batches OUT-FOLDER
# $SMALL=1 runs models, between, memory and batches with tiny models on CPUs, to try them.
# $SECONDS_LEFT bounds layouts and ddp, $BUDGET llm, between, memory and batches.
# $ONLY: first words of the configurations that run, one a line; $NCCL_TESTS: its sources.
# Needs python3 with torch and the packages of pyproject.toml; nothing is installed. NVLink multicast stays as it is.
set -uo pipefail
stage=$1 out=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$0")/../../../.."
export PYTHONPATH="$PWD:$PWD/api:$PWD/operator:$PWD/worker:$PWD/local:$PWD/analysis${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
here=docs/evidence/gpu work=${WORK:-/tmp/scalecurve-evidence}
mkdir -p "$work"
small=()
[ -z "${SMALL:-}" ] || small=(--overlay "$here/experiments/small.yaml")
only=()
[ -z "${ONLY:-}" ] || mapfile -t names <<< "$ONLY"
[ -z "${ONLY:-}" ] || only=(--only "${names[@]}")

bounded() { # arguments of run: within $BUDGET seconds of the stage; what is left runs in the next call
    local left=$((${BUDGET:-520} - SECONDS))
    timeout -s INT "$((left > 5 ? left : 5))" python3 -m scalecurve run "$@" --quiet -o md 2>&1
}

packed() { # name of a bundle
    rm -f "$out/$1.zip"
    python3 -m scalecurve pack "$work/$1" --out "$out/$1.zip"
}

versions() {
    nvidia-smi --query-gpu=index,name,uuid,driver_version,clocks.sm,temperature.gpu --format=csv
    nvidia-smi topo -m
    python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "nccl", torch.cuda.nccl.version())'
    env | grep -E "^(NCCL|TORCH|CUDA|OMP)_" | sort
    uptime
}

versions > "$out/versions-$stage.txt" 2>&1
case $stage in
layouts) # tensor, pipeline and context parallelism: the harness beside plain loops
    python3 "$here/scripts/layouts.py" "${only[@]}" --no-digests --pairs "${PAIRS:-3}" --seconds "${SECONDS_LEFT:-600}" \
        --out "$out/layouts.json" 2>&1 | tee "$out/layouts.txt" ;;
ddp) # ResNet-50 and GPT-2 large under DDP
    [ -n "${ONLY:-}" ] || only=(--only "resnet50 weak" gpt2_large)
    python3 -m benchmarks.fidelity.fidelity --workers 2 "${only[@]}" --limit "${SECONDS_LEFT:-300}" \
        --out "$out/ddp.json" 2>&1 | tee "$out/ddp.txt" ;;
explain) # GPT-2 small under DDP and FSDP2, one and two GPUs
    python3 -m scalecurve run "$here/experiments/explain-gpt2.yaml" --bundle "$work/explain-gpt2" --resume -o md 2>&1 |
        tee "$out/explain-gpt2.txt"
    python3 -m scalecurve explain "$work/explain-gpt2" -o md 2>&1 | tee -a "$out/explain-gpt2.txt"
    rm -f "$out/explain-gpt2.zip"
    python3 -m scalecurve pack "$work/explain-gpt2" --out "$out/explain-gpt2.zip" ;;
llm) # GPT-2 small and Llama 3.2 1B on one GPU: batch, length, compile, checkpointing; $STUDIES: which of them, $BUDGET: seconds
    for study in ${STUDIES:-gpt2-small llama-1b}; do
        timeout -s INT "${BUDGET:-520}" python3 -m scalecurve run "$here/experiments/llm/$study.yaml" --bundle "$work/$study" --resume -o md 2>&1 |
            tee "$out/$study.txt"
        rm -f "$out/$study.zip"
        python3 -m scalecurve pack "$work/$study" --out "$out/$study.zip"
    done ;;
explained) # two GPUs, nine minutes: the same with traces, known causes put into ResNet-50, and HSDP beside a plain loop
    bounded "$here/experiments/explain-gpt2.yaml" --overlay "$here/experiments/explain-gpt2-traced.yaml" --bundle "$work/explain-traced" --resume |
        tee "$out/explain-traced.txt"
    python3 -m scalecurve explain "$work/explain-traced" -o md 2>&1 | tee -a "$out/explain-traced.txt"
    packed explain-traced
    timeout -s INT "${INJECTED_S:-170}" python3 -m benchmarks.injected --runs 1 --gpu --only loader --only host --only batch \
        --bundles "$work/injected" 2>&1 | tee "$out/injected.txt"
    for cause in loader host batch; do
        python3 -m scalecurve explain "$work/injected/$cause/0/bundle" >> "$out/injected.txt" 2>&1
    done
    (cd "$work/injected" && python3 -m zipfile -c "$out/injected.zip" ./*)
    python3 -m benchmarks.fidelity.fidelity --strategies --workers 2 --only "gpt2_large hsdp" --pairs 3 \
        --limit "$((${SECONDS_LEFT:-560} - SECONDS))" --out "$out/hsdp.json" 2>&1 | tee "$out/hsdp.txt" ;;
models) # three minutes: ResNet-50 is measured, VGG-16 and GPT-2 small predicted from it, recorded, run and scored
    bounded "$here/experiments/models-resnet50.yaml" "${small[@]}" --bundle "$work/models-resnet50" --resume | tee "$out/models-resnet50.txt"
    packed models-resnet50
    for name in ${PREDICTED:-vgg16 gpt2-small}; do
        of=models-$name
        [ -d "$work/$of" ] || python3 "$here/scripts/sealed_models.py" "$here/experiments/$of.yaml" "${small[@]}" --measured "$work/models-resnet50" \
            --record "$work/$of" 2>&1 | tee "$out/$of-predicted.txt"
        bounded "$here/experiments/$of.yaml" "${small[@]}" --bundle "$work/$of" --resume | tee "$out/$of.txt"
        python3 -m scalecurve predict "$work/$of" --score -o md 2>&1 | tee "$out/$of-score.txt"
        packed "$of"
    done ;;
nccltests) # six collectives from 1 MiB to 1 GiB, our own measurement and nccl-tests' programs by turns, on torch's NCCL
    nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')
    mkdir -p "$work/nccl/lib"
    ln -sfn "$nccl/include" "$work/nccl/include"
    ln -sf "$nccl/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so"
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    cp -r "$NCCL_TESTS" "$work/nccl-tests"
    make=(make -C "$work/nccl-tests/src" -j 16 CUDA_HOME="$(dirname "$(dirname "$nvcc")")" NVCC="$nvcc" NCCL_HOME="$work/nccl"
        NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90")
    programs=(../build/{all_reduce,all_gather,reduce_scatter,alltoall,broadcast,sendrecv}_perf)
    { "${make[@]}" os.build && "${make[@]}" "${programs[@]}"; } > "$out/nccl-tests-build.txt" 2>&1
    tail -3 "$out/nccl-tests-build.txt"
    export PATH="$work/nccl-tests/build:$PATH" LD_LIBRARY_PATH="$nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    python3 -m scalecurve run docs/evidence/h200/experiments/collectives.yaml --overlay "$here/experiments/nccl-tests.yaml" \
        --bundle "$work/nccl-tests-beside" --resume -o md 2>&1 | tee "$out/nccl-tests.txt"
    python3 -m scalecurve collectives "$work/nccl-tests-beside" -o md > "$out/nccl-tests-tables.md" 2>&1
    grep -o '"ncclTestsLeftOut[^]}]*' -r "$work/nccl-tests-beside" | head -3 | tee -a "$out/nccl-tests.txt"
    rm -f "$out/nccl-tests.zip"
    python3 -m scalecurve pack "$work/nccl-tests-beside" --out "$out/nccl-tests.zip" ;;
between) # three and a half minutes: a session of ResNet-50 and one of GPT-2 small; $BUNDLES: folder of packed bundles that get one more
    uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader || echo none)
    for name in between-machines-resnet50 between-machines-gpt2-small; do
        session=--resume
        if [ -f "${BUNDLES:-}/$name.zip" ]; then
            if python3 "$here/scripts/between_machines.py" "$BUNDLES/$name.zip" | grep -q "$uuid"; then
                echo "$uuid has a session in $name"
                continue
            fi
            [ -d "$work/$name" ] || { python3 -m scalecurve unpack "$BUNDLES/$name.zip" --out "$work/$name" && session=--add-session; }
        fi
        bounded "$here/experiments/$name.yaml" "${small[@]}" --bundle "$work/$name" "$session" | tee "$out/$name.txt"
        packed "$name"
        python3 "$here/scripts/between_machines.py" "$out/$name.zip" | tee -a "$out/$name.txt"
    done ;;
memory) # five minutes: predicted and measured peak of 12 configurations, and one that is refused; $PREDICTED: what was predicted elsewhere
    predicted=${PREDICTED:-$out/memory-predicted.json}
    files=("$here"/experiments/memory/{resnet50,gpt2-small,llama-1b}.yaml)
    [ -f "$predicted" ] || python3 "$here/scripts/memory_error.py" predict "${files[@]}" --out "$predicted"
    python3 -m scalecurve run "${files[1]}" --overlay "$here/experiments/memory/too-large.yaml" --bundle "$work/memory-too-large" > "$out/memory-refused.txt" 2>&1
    echo "exit code $?" | tee -a "$out/memory-refused.txt"
    [ ! -e "$work/memory-too-large" ] || echo "memory-too-large has a bundle" | tee -a "$out/memory-refused.txt"
    for name in resnet50 gpt2-small llama-1b; do
        bounded "$here/experiments/memory/$name.yaml" "${small[@]}" --bundle "$work/memory-$name" --resume > "$out/memory-$name.txt"
        packed "memory-$name"
    done
    python3 "$here/scripts/memory_error.py" score "$predicted" "$out"/memory-*.zip | tee "$out/memory-error.md" ;;
batches) # five minutes: two batches are measured, two larger ones predicted from them, recorded, run and scored; $MODELS: which
    for model in ${MODELS:-resnet50 gpt2-small}; do
        of=batches-$model
        bounded "$here/experiments/$of.yaml" --overlay "$here/experiments/$of-measured.yaml" "${small[@]}" --bundle "$work/$of-measured" --resume |
            tee "$out/$of-measured.txt"
        [ -d "$work/$of" ] || python3 "$here/scripts/sealed_batches.py" "$here/experiments/$of.yaml" "${small[@]}" --measured "$work/$of-measured" \
            --record "$work/$of" 2>&1 | tee "$out/$of-predicted.txt"
        bounded "$here/experiments/$of.yaml" "${small[@]}" --bundle "$work/$of" --resume | tee "$out/$of.txt"
        python3 -m scalecurve predict "$work/$of" --score -o md 2>&1 | tee "$out/$of-score.txt"
        packed "$of-measured"
        packed "$of"
    done ;;
*) echo "layouts, ddp, explain, explained, models, nccltests, llm, between, memory or batches, not $stage" >&2; exit 2 ;;
esac
