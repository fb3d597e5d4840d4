"""Links of PyG's graphs: what ``RandomLinkSplit`` makes, and what ``gsplit export`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gsplit.data.importers.checked import as_ids
from gsplit.data.importers.formats.torch_files import dense_array
from gsplit.data.links.edge_sets import EDGE_SETS, FILES, Links, links_of_files
from gsplit.errors import InputError


def links_of_data(parts: Sequence[dict[str, Any]], where: str) -> Links | None:
    """The links of a graph, or of the three that ``RandomLinkSplit`` makes of one; None where there are none.

    Pairs are ``edge_label_index`` [2, M]; those whose ``edge_label`` [M] is 0 do not belong together: in validation
    and test they are what all others are compared with, in training they are left out.

    Args:
        parts: the attributes of one graph, or of those of the training, validation and test pairs.
        where: what messages call it.

    Raises:
        InputError: for tensors of other types or shapes.
    """
    written = {name: dense_array(parts[0][name], f"{where}: {name}") for name in FILES if name in parts[0]}
    links = links_of_files(written, where)
    for name, part in zip(EDGE_SETS, parts, strict=False):
        if "edge_label_index" not in part:
            continue
        what = f"{where}: edge_label_index of the {name} pairs"
        index = dense_array(part["edge_label_index"], what)
        if index.ndim != 2 or len(index) != 2:
            raise InputError(f"{what} must have the shape (2, M), not {index.shape}")
        pairs = np.stack([as_ids(row, what) for row in index], axis=1).astype(np.int64)
        label = np.ones(len(pairs)) if part.get("edge_label") is None else dense_array(part["edge_label"], what)
        if label.shape != (len(pairs),):
            raise InputError(f"{what}: edge_label must have the shape ({len(pairs)},), not {label.shape}")
        found: dict[str, Any] = {name: pairs[label > 0]}
        if name != "train" and (label <= 0).any():
            found[f"{name}_negatives"] = pairs[label <= 0]
        links = replace(links or Links.empty(), **found)
    return links
