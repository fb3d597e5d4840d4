"""Files that ``torch.save`` wrote. Nothing is unpickled but tensors, plain arrays and the classes asked for."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.data.importers.checked import printable_line
from gsplit.errors import InputError


def load_torch(path: Path, classes: Iterable[Any] = ()) -> Any:
    """Load what ``torch.save`` wrote, built from tensors, plain arrays, containers and ``classes`` alone.

    Raises:
        InputError: where the file is missing, damaged, or holds anything else.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing" if not path.exists() else f"{path} is a folder, not a file")
    try:
        with (
            warnings.catch_warnings(),
            torch.serialization.safe_globals([*classes, *_numpy_globals()]),
            torch.sparse.check_sparse_tensor_invariants(),  # or ids out of range reach memory of others
        ):
            warnings.simplefilter("ignore")  # remarks on sparse layouts, which are not the user's doing
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:
        # A damaged pickle fails in as many ways as there are opcodes.
        unsafe = _unsafe(path, (*classes, *_numpy_globals()))
        if unsafe:
            raise InputError(
                f"{path} holds Python objects ({unsafe}), which are never unpickled; save plain tensors instead"
            ) from None
        cause = printable_line((str(error).strip().splitlines() or [""])[0])
        if "Weights only load failed" in cause:  # PyTorch goes on to advise what we never do
            cause = "that reads as tensors alone; .bin of dgl.save_graphs is imported as dgl:PATH"
            raise InputError(f"{path} is damaged or not a file of torch.save {cause}") from None
        raise InputError(
            f"{path} is damaged or not a file of torch.save: {type(error).__name__} {cause}".rstrip()
        ) from None


def dense_array(value: Any, what: str) -> NDArray[Any]:
    """A tensor (dense or sparse, on any device) or array as a dense array in the host's memory.

    Raises:
        InputError: for anything else.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.is_quantized:
        raise InputError(f"{what} is of type {type(value).__name__}; expected a tensor of numbers")
    value = value.detach().cpu()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_floating_point() and value.dtype not in (torch.float16, torch.float32, torch.float64):
        value = value.float()  # NumPy has no bfloat16, nor anything smaller
    return value.numpy()


def _numpy_globals() -> list[Any]:
    """Functions and classes that a pickled plain array is made of, under the names of NumPy 1 and 2."""
    reconstruct, scalar = np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]
    dtypes = {type(np.dtype(code)) for code in "?bBhHiIlLqQefd"}
    named = [
        (function, f"{module}.multiarray.{name}")
        for module in ("numpy.core", "numpy._core")
        for function, name in ((reconstruct, "_reconstruct"), (scalar, "scalar"))
    ]
    return [np.ndarray, np.dtype, *named, *dtypes]


def _unsafe(path: Path, allowed: Iterable[Any]) -> str:
    """Names of the classes in a file that are not allowed; empty where they are not known."""
    try:
        with torch.serialization.safe_globals(list(allowed)):
            names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # as damaged as above
        return ""
    return printable_line(", ".join(sorted(names)[:3]))
