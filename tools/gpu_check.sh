#!/usr/bin/env bash
# Everything that needs a GPU, in one call of about ten minutes, on a machine that may be offline: builds the
# extension against the PyTorch that is there, runs the tests marked gpu, times the ways to load feature rows, then
# trains with one trainer on the GPU, with four that share it (a test of correctness; the times of shared ranks mean
# nothing), with one that does not work ahead, with one whose loading is traced, and with every strategy.
#
#   tools/gpu_check.sh [OUT]      OUT: a folder for logs and summaries, by default gpu-check
#
# PYTHON names the interpreter. DEVICE=cpu PRESET=tiny SMALL_PRESET=tiny tries the commands without a GPU. What fails is
# named at the end; the rest runs all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-gpu-check}")
mkdir -p "$out"
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
preset=${PRESET:-large}
small_preset=${SMALL_PRESET:-medium}

failed=()

if [ "$device" = cuda ]; then
    "$python" -m pip install --quiet --no-build-isolation --no-deps --editable .
    nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv | tee "$out/gpu.txt"
    "$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)' | tee -a "$out/gpu.txt"
    timeout 240 "$python" -m pytest -m gpu tests/gpu -v 2>&1 | tee "$out/pytest.txt" || failed+=(tests)
fi
quick=()
if [ "$device" != cuda ]; then quick=(--quick); fi
"$python" -m experiments.loading --device "$device" ${quick[@]+"${quick[@]}"} --json "$out/loading.json" 2>&1 |
    tee "$out/loading.txt" || failed+=(loading)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train NAME LAYOUT FLAG...: one run; its log and its summary go to OUT under that name.
train() {
    local name=$1 layout=$2
    shift 2
    GSPLIT_SHARE_GPU=1 timeout 120 "$python" -m gsplit.train "$work/$layout" --device "$device" --fan-out 10,10,10 \
        --batch-size 4096 --hidden 64 --lr 0.01 --out "$work/run-$name" "$@" 2>&1 | tee "$out/train-$name.txt" ||
        failed+=("train $name")
    cp "$work/run-$name/summary.json" "$out/summary-$name.json" || true
}

"$python" -m gsplit.data import "synthetic:$preset" --out "$work/graph"
for parts in 1 4; do
    "$python" -m gsplit.partition "$work/graph" --parts "$parts" --out "$work/layout-$parts"
    train "$parts" "layout-$parts" --epochs 3
done

# What working ahead is worth: the same run with nothing sampled and nothing loaded before its turn.
train not-ahead layout-1 --epochs 3 --samplers 0 --prefetch 0

# How much of loading is hidden behind computing, with each loader, and every row from the host.
loaders=(gather)
if [ "$device" = cuda ]; then loaders+=(zero-copy); fi
for loader in "${loaders[@]}"; do
    train "traced-$loader" layout-1 --epochs 2 --cache none --loader "$loader" --profile --validate-every 0
    "$python" -m experiments.overlap "$work/run-traced-$loader/trace.json" --json "$out/overlap-$loader.json" |
        tee "$out/overlap-$loader.txt" || failed+=("overlap $loader")
    gzip -c "$work/run-traced-$loader/trace.json" >"$out/trace-$loader.json.gz" || true
done

# The strategies, an epoch each of a smaller graph: starting four trainers takes as long as training.
"$python" -m gsplit.data import "synthetic:$small_preset" --out "$work/small-graph"
"$python" -m gsplit.partition "$work/small-graph" --parts 4 --out "$work/small-layout-4"
strategy() {
    train "$1" small-layout-4 --epochs 1 --validate-every 0 "${@:2}"
}
strategy data --strategy data
strategy data-partitioned --strategy data --cache partitioned --cache-size 10%
strategy data-replicated --strategy data --cache replicated --cache-size 10%
strategy split-groups --split-group 2
strategy split-cached --cache partitioned --cache-size 10%
strategy bfloat16 --cache none --feature-dtype bfloat16

if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
