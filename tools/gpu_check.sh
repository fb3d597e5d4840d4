#!/usr/bin/env bash
# What only GPUs show, in ten minutes, on a machine that may be offline; ends with a table for docs/results.
#
#   tools/gpu_check.sh [OUT]              one GPU; OUT: a folder for logs and the table, by default gpu-check
#   tools/gpu_check.sh --gpus 2 [OUT]     what only several show: copies between them, NCCL's ways, caches of peers
#   DEVICE=cpu tools/gpu_check.sh [OUT]   the same commands without a GPU, on a tiny graph; with tests/simulator in
#                                         PYTHONPATH, DEVICE=sim runs them on the simulated accelerator
#
# It takes the environment of make demo, or the interpreter that PYTHON names, and says what that lacks. tools/gpu_check/
# has the parts.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
if [ -z "${PYTHON:-}" ] && [ ! -x "$python" ]; then python=python3; fi
if ! command -v "$python" >/dev/null; then
    echo "error: there is no $python; make demo makes an environment, or PYTHON names an interpreter" >&2
    exit 2
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
"$python" -m tools.gpu_check.missing || exit 2
exec "$python" -m tools.gpu_check "$@"
