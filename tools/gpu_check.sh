#!/usr/bin/env bash
# Everything that needs a GPU, in one call of under ten minutes, on a machine that may be offline: builds the
# extension against the PyTorch that is there, runs the tests marked gpu, then trains with one trainer on the GPU,
# with four that share it (a test of correctness; the times of shared ranks mean nothing), and with one that does
# not work ahead.
#
#   tools/gpu_check.sh [OUT]      OUT: a folder for logs and summaries, by default gpu-check
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-gpu-check}")
mkdir -p "$out"
python=${PYTHON:-python3}

"$python" -m pip install --quiet --no-build-isolation --no-deps --editable .
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv | tee "$out/gpu.txt"
"$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)' | tee -a "$out/gpu.txt"

"$python" -m pytest -m gpu tests/gpu -v 2>&1 | tee "$out/pytest.txt"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m gsplit.data import synthetic:large --out "$work/graph"
for parts in 1 4; do
    "$python" -m gsplit.partition "$work/graph" --parts "$parts" --out "$work/layout-$parts"
    GSPLIT_SHARE_GPU=1 "$python" -m gsplit.train "$work/layout-$parts" --device cuda --fan-out 10,10,10 \
        --batch-size 4096 --hidden 64 --epochs 3 --lr 0.01 --out "$work/run-$parts" 2>&1 | tee "$out/train-$parts.txt"
    cp "$work/run-$parts/summary.json" "$out/summary-$parts.json"
done

# What working ahead is worth: the same run with nothing sampled and nothing loaded before its turn.
"$python" -m gsplit.train "$work/layout-1" --device cuda --fan-out 10,10,10 --batch-size 4096 --hidden 64 --epochs 3 \
    --lr 0.01 --samplers 0 --prefetch 0 --out "$work/run-not-ahead" 2>&1 | tee "$out/train-not-ahead.txt"
cp "$work/run-not-ahead/summary.json" "$out/summary-not-ahead.json"
