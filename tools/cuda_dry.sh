#!/usr/bin/env bash
# What can be known of PyTorch's CUDA build without a GPU: makes an environment with it, in which everything is
# imported, training steps of every strategy and loader run on `cuda` with tensors that have no values, operators that
# these use are looked up among those with a CUDA kernel, and the Triton kernels are compiled and interpreted.
#
#   tools/cuda_dry.sh FOLDER     FOLDER: where the environment is made (6 GB); one that is there is used again
#
# PYTHON names the interpreter to make it with. A C compiler is needed, as for GSplit itself.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(realpath -m "${1:?say where the environment may be made: tools/cuda_dry.sh FOLDER}")
version=$(sed -n 's/^torch==//p' "$root/constraints.txt")
pip() { "$folder/bin/python" -m pip install --quiet "$@"; }
if [ ! -e "$folder/.installed" ]; then
    "${PYTHON:-python3}" -m venv "$folder"
    pip "torch===$version" # three signs: the build of exactly that name, not the one for the CPU
    pip --constraint "$root/constraints.txt" scikit-build-core nanobind cmake ninja pytest hypothesis triton torch_geometric
    pip --constraint "$root/constraints.txt" --no-build-isolation --config-settings "build-dir=$folder/build" \
        --editable "$root[tables,matrices,metrics,kaminpar,plots,graphbolt]"
    touch "$folder/.installed"
fi
cd "$root"
"${CC:-cc}" -shared -fPIC -O1 -o "$folder/libcuda.so.1" tools/cuda_dry/one_device.c
failed=0
LD_LIBRARY_PATH=$folder LD_PRELOAD=$folder/libcuda.so.1 "$folder/bin/python" -m tools.cuda_dry || failed=1
"$folder/bin/python" -m pytest -p no:cacheprovider \
    tests/unit/test_cuda_dry.py tests/unit/kernels/test_compiled.py \
    "tests/unit/kernels/test_interpreter.py::test_in_the_interpreter[all]" || failed=1
exit $failed
