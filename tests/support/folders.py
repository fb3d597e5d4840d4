"""A folder of arrays, of the least there can be."""

from __future__ import annotations

import numpy as np

from gsplit.data.description import read_description
from gsplit.data.folders import writing_folder

FORMAT, VERSION, FILE = "gsplit-graph", 1, "graph.json"
NUMBERS = np.arange(5)
FLOATS = np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2)


def write(folder, numbers=NUMBERS, **options):
    with writing_folder(folder, **options) as writer:
        writer.save("numbers", numbers)
        writer.save("floats", FLOATS)
        writer.describe(FILE, {"format": FORMAT, "version": VERSION})


def describe(folder):
    return read_description(folder, FILE, FORMAT, VERSION)
