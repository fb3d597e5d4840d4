#!/usr/bin/env bash
# What only GPUs show, in ten minutes, on a machine that may be offline; ends with a table for docs/results.
#
#   tools/gpu_check.sh [OUT]              one GPU; OUT: a folder for logs and the table, by default gpu-check
#   tools/gpu_check.sh --gpus 2 [OUT]     what only several show: copies between them, NCCL's ways, caches of peers
#   DEVICE=cpu tools/gpu_check.sh [OUT]   the same commands without a GPU, on a tiny graph; with tests/simulator in
#                                         PYTHONPATH, DEVICE=sim runs them on the simulated accelerator
#
# PYTHON names the interpreter, in whose environment GSplit is installed or can be built. tools/gpu_check/ has the parts.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
# The parts need the package before the first of them can build it.
if ! "$python" -c 'import gsplit._core' 2>/dev/null; then
    "$python" -m pip install --quiet --no-build-isolation --no-deps --editable "$root"
fi
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m tools.gpu_check "$@"
