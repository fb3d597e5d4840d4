#!/usr/bin/env bash
# Everything that needs a GPU, in one call, on a machine that may be offline: builds the extension against the PyTorch
# that is there, runs the tests marked gpu (they start about a hundred processes; at most half an hour), times the ways
# to load feature rows, then trains with one trainer on the GPU, with four that share it (a test of correctness; the
# times of shared ranks mean nothing), with one that does not work ahead, with one whose loading is traced, and with
# every strategy.
#
#   tools/gpu_check.sh [OUT]            OUT: a folder for logs and summaries, by default gpu-check
#   tools/gpu_check.sh --gpus N [OUT]   what only several GPUs show, with N trainers on N GPUs
#
# Trainers that share a GPU talk over sockets. So with --gpus 2 each has its own, and they exchange rows and gradients
# over NCCL, by split and by data parallelism; they read each other's caches (CUDA
# IPC, P2P); a run is killed in the middle. Then nothing may be left in /dev/shm.
#
# PYTHON names the interpreter. DEVICE=cpu PRESET=tiny SMALL_PRESET=tiny tries the commands without a GPU. What fails is
# named at the end; the rest runs all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
gpus=1
if [ "${1:-}" = --gpus ]; then
    gpus=$2
    shift 2
fi
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
    nvidia-smi topo -m >>"$out/gpu.txt" || true
    found=$("$python" -c 'import torch; print(torch.cuda.device_count())')
    if [ "$found" -lt "$gpus" ]; then
        echo "--gpus $gpus, but PyTorch finds $found" >&2
        exit 2
    fi
    timeout 1800 "$python" -m pytest -m gpu tests/gpu -v 2>&1 | tee "$out/pytest.txt" || failed+=(tests)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$gpus" = 1 ]; then export GSPLIT_SHARE_GPU=1; fi

# train NAME LAYOUT FLAG...: one run; its log and its summary go to OUT under that name.
train() {
    local name=$1 layout=$2
    shift 2
    timeout 300 "$python" -m gsplit.train "$work/$layout" --device "$device" --fan-out 10,10,10 \
        --batch-size 4096 --hidden 64 --lr 0.01 --out "$work/run-$name" "$@" 2>&1 | tee "$out/train-$name.txt" ||
        failed+=("train $name")
    cp "$work/run-$name/summary.json" "$out/summary-$name.json" || true
}

# finish: names what failed.
finish() {
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'failed: %s\n' "${failed[@]}"
        exit 1
    fi
    exit 0
}

if [ "$gpus" != 1 ]; then
    shared_memory() { find /dev/shm -maxdepth 1 -user "$(id -u)" -printf '%f\n' | sort; }
    shared_memory >"$out/shm-before.txt"
    "$python" -m gsplit.data import "synthetic:$preset" --out "$work/graph"
    "$python" -m gsplit.partition "$work/graph" --parts "$gpus" --out "$work/layout"
    train split layout --epochs 3
    train split-cached layout --epochs 3 --cache partitioned --cache-size 10%
    train split-no-cache layout --epochs 3 --cache none
    train data layout --epochs 3 --strategy data
    train data-replicated layout --epochs 3 --strategy data --cache replicated --cache-size 10%
    # Every second row is in another trainer's cache; the second run has them of a size that auto chooses.
    train data-peers layout --epochs 3 --strategy data --cache partitioned --cache-size 100%
    train data-peers-auto layout --epochs 3 --strategy data --cache partitioned
    # As where GPUs cannot open each other's memory: NCCL goes through the host.
    NCCL_P2P_DISABLE=1 train split-no-p2p layout --epochs 3
    # A trainer that is killed ends its run with the cause as the last word.
    train_killed() {
        timeout 300 "$python" -m gsplit.train "$work/layout" --device "$device" --fan-out 10,10,10 --batch-size 64 \
            --epochs 100000 --strategy data --cache partitioned --cache-size 10% --out "$work/run-killed" \
            >"$out/train-killed.txt" 2>&1 &
        local limit=$! tries=0
        until [ -s "$work/run-killed/metrics.jsonl" ] || [ $((tries += 1)) -gt 240 ]; do sleep 0.5; done
        kill -KILL "$(pgrep -P "$(pgrep -P "$limit")" -f multiprocessing.spawn | head -1)"
        if wait "$limit"; then return 1; fi
        grep -q 'was ended by SIGKILL' "$out/train-killed.txt"
    }
    train_killed || failed+=("train killed")
    shared_memory >"$out/shm-after.txt"
    if ! diff "$out/shm-before.txt" "$out/shm-after.txt"; then failed+=("/dev/shm: files were left, see shm-after.txt"); fi
    finish
fi

quick=()
if [ "$device" != cuda ]; then quick=(--quick); fi
"$python" -m experiments.micro.loading --device "$device" ${quick[@]+"${quick[@]}"} --json "$out/loading.json" 2>&1 |
    tee "$out/loading.txt" || failed+=(loading)

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
    "$python" -m experiments.micro.overlap "$work/run-traced-$loader/trace.json" --json "$out/overlap-$loader.json" |
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
finish
