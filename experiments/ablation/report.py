"""The results of an ablation: their keys (docs/formats.md, "Ablation"), and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.ablation.config import PYG, PYG_MODEL, AblationConfig
from experiments.ablation.variants import BASE
from experiments.compare.measuring import Bench
from experiments.compare.pairs import COMPARED, Round, epoch_row, noise_rows, ratio_row
from experiments.compare.report import settings_of, table, versions
from experiments.shared.noise import cores
from experiments.shared.results import dataset_text
from gsplit.units import binary

Cell = Callable[[Mapping[str, Any]], str]
Columns = Mapping[str, Cell]
ALSO_OVER = {PYG: (PYG_MODEL,)}
"""What a change is compared with, beside the base."""


def new_result(config: AblationConfig, bench: Bench) -> dict[str, Any]:
    """What is known before anything ran."""
    return {
        "dataset": bench.graph.facts,
        "settings": settings_of(config),
        "versions": versions(),
        "host": {"cores": cores(), "threads": config.trainer_threads},
        "tables": {"changes": [], "ratios": [], "exchange": [], "noise": [], "not_run": bench.failures},
        "runs": bench.runs,
    }


def add_study(tables: dict[str, list[dict[str, Any]]], study: str, rounds: Sequence[Round]) -> None:
    """Rows of one study: an epoch of each, ratios to the base, the machine."""
    names = list(dict.fromkeys(name for each in rounds for name in each))
    tables["changes"] += [{"study": study, "change": name, **epoch_row(rounds, name)} for name in names]
    for what in COMPARED:
        for name in names:
            for over in (BASE, *ALSO_OVER.get(name, ())):
                row = None if name == over else ratio_row(rounds, name, over, what)
                if row:
                    tables["ratios"].append({"study": study, "change": row.pop("system"), **row})
    tables["noise"] += [{"study": study, **row} for row in noise_rows(rounds)]


def markdown(result: Mapping[str, Any]) -> str:
    """The tables for readers."""
    settings, tables = result["settings"], result["tables"]
    about = (
        f"{dataset_text(result['dataset'])}. {settings['gpus']} trainers with {result['host']['threads']} threads "
        f"each on {result['host']['cores']} cores; {settings['model']}, hidden {settings['hidden']}, fan-out "
        f"{','.join(map(str, settings['fan_out']))}, batch size {settings['batch_size']}."
    )
    parts = [f"# Ablation: {settings['dataset']}\n\n{about}\n"]
    for title, (key, columns) in SECTIONS.items():
        if tables[key]:
            parts.append(f"## {title}\n\n{table(tables[key], columns)}")
    return "\n".join(parts)


def _plain(name: str) -> Cell:
    return lambda row: "-" if row[name] is None else str(row[name])


def _number(name: str, digits: str) -> Cell:
    return lambda row: "-" if row[name] is None else format(row[name], digits)


def _bytes(name: str) -> Cell:
    return lambda row: "-" if row[name] is None else binary(row[name])


CHANGE: Columns = {"study": _plain("study"), "change": _plain("change")}
SECTIONS: dict[str, tuple[str, Columns]] = {
    "Seconds over those of the base": (
        "ratios",
        {
            **CHANGE,
            "over": _plain("over"),
            "of": _plain("what"),
            "ratio, median (least to most)": lambda row: (
                f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})"
            ),
            "rounds, quiet ones": lambda row: f"{row['rounds']}, {row['quiet_rounds']}",
        },
    ),
    "Bytes exchanged in the first epoch, both ways": (
        "exchange",
        {
            **CHANGE,
            "exchanged": _bytes("exchanged_bytes"),
            "over the base": _number("over_base", ".4f"),
            "over raw input rows": _number("over_inputs", ".4f"),
            "first layer over them": _number("first_layer_over_inputs", ".4f"),
        },
    ),
    "An epoch": (
        "changes",
        {
            **CHANGE,
            "epoch, s": _number("epoch_s", ".3f"),
            "computing, s": _number("computing_s", ".3f"),
            "waiting, s": _number("waiting_s", ".3f"),
            "edges": _number("edges", ","),
            "loaded": _bytes("loaded_bytes"),
            "exchanged": _bytes("exchanged_bytes"),
        },
    ),
    "What did not run": (
        "not_run",
        {"change": _plain("system"), "study": _plain("phase"), "reason": _plain("reason")},
    ),
}
"""Each table by its title."""
