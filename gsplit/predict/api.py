"""``gsplit.predict``: check everything, start the trainers, give their rows a name."""

from __future__ import annotations

import copy
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from gsplit.config.fields import check_options
from gsplit.config.predict import OF_PAIRS, PredictConfig, What, check_what
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.data.append import grown_from
from gsplit.data.graph import Task
from gsplit.data.labels.class_names import names_described
from gsplit.data.layout import FILE as LAYOUT
from gsplit.device.choice import choose_device, threads_of, trainers_of
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.company import check_company
from gsplit.engine.evaluation.evaluation_memory import Asked, check_evaluation_fits
from gsplit.engine.evaluation.single_layers import single_layers_of
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.rows.shared import Shared
from gsplit.engine.sampled.edge_weights import Weighed, check_weights_of_prediction
from gsplit.engine.strategy import copied_dtype
from gsplit.engine.tasks.links import for_links
from gsplit.errors import InputError
from gsplit.files import as_path, real_path
from gsplit.host import ending_tidily
from gsplit.models import prepared
from gsplit.models.registry import DECODER, OURS
from gsplit.models.saved import load_described
from gsplit.parallel import rendezvous
from gsplit.predict import compute
from gsplit.predict.output import (
    FEATURES,
    VALUES,
    NamesInOutput,
    check_out,
    make_probabilities,
    missing_rows,
    temporary_folder,
    write_predictions,
)
from gsplit.predict.pairs import SOURCES, TOP_K, PairSpec, asked_pairs, not_finite
from gsplit.predict.vertices import Request, asked_vertices
from gsplit.processes import check_script, start
from gsplit.runs.folder import CONFIG, RUNS

logger = logging.getLogger(__name__)

PRODUCTS = ("dot", "cosine", "distmult")
"""Decoders whose scores the core computes."""


def predict(
    run: str | os.PathLike[str],
    layout: str | os.PathLike[str],
    *,
    vertices: str | Path | ArrayLike = "all",
    pairs: str | Path | ArrayLike | None = None,
    candidates: str | Path | ArrayLike = "all",
    model: nn.Module | None = None,
    **options: Any,
) -> NDArray[Any]:
    """Predict with the best model of a run, with one process per part of the layout.

    Processes are spawned, so a script that calls this needs ``if __name__ == "__main__":``.

    Args:
        run: what ``gsplit.train`` returned, or the folder that it wrote.
        layout: what to predict on: what ``gsplit.partition`` returned, or the folder.
        vertices: as ``--vertices``, or int [M] global ids.
        pairs: as ``--pairs``, or int [M, 2] global ids.
        candidates: as ``--candidates``, or int [C] global ids.
        model: for a run of a custom model, one of the same shape, as for :func:`gsplit.load`. To give embeddings it
            must be written for PyG or DGL, or needs ``forward_layer`` and ``level_widths``, or
            ``forward_until(l, blocks, x)`` from features of the inputs and the blocks 1 .. l to the vectors of
            level l.
        options: the other fields of :class:`gsplit.config.predict.PredictConfig`, ``out`` among them: a file.

    Returns:
        A read-only map of the values in the order asked for: classes int64 [M] (uint8 [M, C] for multi-label),
        values of a regression, probabilities or logits [M, C], or embeddings [M, width] in the dtype of the run;
        scores [M] of pairs; of neighbours [M, k] with the fields ``neighbour``, a global id or -1, and ``score``. It
        stays when the file goes.

    Raises:
        InputError: for whatever is wrong with the input; nothing is written then.
        gsplit.parallel.ProcessDied: where a trainer fails; no process and no file is left then.

    Examples:
        >>> gsplit.predict("run", "layout", what="logits", vertices=[5, 7], device="cpu").shape
        (2, 3)
    """
    check_script("gsplit.predict")
    vertices, candidates = (str(each) if isinstance(each, Path) else each for each in (vertices, candidates))
    of_file = None if pairs is None else Path(pairs) if isinstance(pairs, str | Path) else Path("those given")
    which, among = (each if isinstance(each, str) else "those given" for each in (vertices, candidates))
    given = ("run", "layout", "vertices", "pairs", "candidates")
    check_options(options, PredictConfig, where="gsplit.predict", without=given)
    trained_in = as_path(run, "gsplit.predict", "what gsplit.train returned, or the folder of a run")
    on = as_path(layout, "gsplit.predict", "what gsplit.partition returned, or the folder of a layout")
    config = PredictConfig(run=trained_in, layout=on, vertices=which, pairs=of_file, candidates=among, **options)
    if config.out is not None:
        check_out(config.out, overwrite=config.overwrite)
    RUNS.recover(config.run)
    trained_with = TrainConfig.from_json(config.run / CONFIG)
    precision = Precision.named(trained_with.precision)
    if config.draws and trained_with.strategy != "full" and trained_with.sampling != "neighbours":
        logger.warning(
            "%s was trained by --sampling %s; --fan-out samples neighbours here", config.run, trained_with.sampling
        )
    loaded, described, trained = load_described(config.run, copy.deepcopy(model))  # the caller's keeps its weights
    decoder = loaded._modules.pop(DECODER, None)
    level = config.level(trained_with.layers, links=decoder is not None)
    ready = prepared.prepare(copy.deepcopy(loaded))
    _check_offers(ready.model, level, trained_with.layers)
    opened = open_layout(real_path(config.layout))
    if trained is not None:
        opened = _with_trained(config.run, described.get("graph"), opened, trained)
    of_links = described["signature"].get(DECODER)
    width = None if of_links is None else int(of_links["width"])
    task = _check_graph(config.run, described.get("graph"), opened if width is None else for_links(opened, width))
    what = _what(config, task, None if of_links is None else str(of_links["name"]))
    weighed = Weighed.of(described["signature"], ready.needs, prepared.divisors_of(ready.model))
    check_weights_of_prediction(opened, weighed, config.fan_out)
    asked, needed = _asked(what, vertices, pairs, candidates, opened)
    names = NamesInOutput(ids=opened.ids(), classes=_class_names(config.run, described.get("graph"), opened))
    if config.check_model:
        check_company(loaded, opened, layers=trained_with.layers, precision=precision)
    elif type(loaded) not in OURS:
        logger.warning("--no-check-model: whether the model %s can be split was not tried", type(loaded).__name__)
    world = trainers_of(config.gpus, opened.parts)
    if config.fan_out and world > opened.parts:
        raise InputError(
            f"{opened.path} has {opened.parts} parts, which with --fan-out cannot be dealt out to {world} trainers; "
            f"use --gpus {opened.parts}"
        )
    if not config.fan_out:
        _check_memory(ready, opened, needed, trained_with, level, world, copies=int(what in OF_PAIRS))
    shared = Shared.create(0)
    try:
        with ending_tidily(), temporary_folder(config.out, needed) as folder, rendezvous(world) as port:
            if trained is not None:
                assert opened.graph.features is not None
                np.save(folder / FEATURES, opened.graph.features)
            if what == "neighbours":
                np.save(folder / SOURCES, asked)
            spec = compute.PredictSpec(
                layout=opened.path,
                folder=folder,
                world=world,
                device_type=choose_device(config.device, world),
                threads=threads_of(config.threads, world),
                port=port,
                pickled_model=prepared.pickled(loaded),
                shared=shared,
                classes=what == "classes",
                multi_label=task == "labels",
                level=level,
                num_layers=trained_with.layers,
                precision=precision,
                normalize_features=trained_with.normalize_features,
                copied_dtype=copied_dtype(trained_with, opened),
                trained_features=trained is not None,
                fan_out=config.fan_out,
                batch_size=config.batch_size,
                seed=config.seed,
                of_pairs=_pair_spec(config, what, decoder, width),
            )
            start(compute.run, world, spec).join()
            if spec.of_pairs is None:
                missing = asked[missing_rows(np.load(folder / VALUES, mmap_mode="r"))]
            else:
                missing = not_finite(folder, world)
            _check_missing(missing, needed, what, names, config)
            if what == "probabilities":
                make_probabilities(folder / VALUES, several=task == "labels")
            values = np.load(folder / VALUES, mmap_mode="r")
            if config.out is not None:
                write_predictions(config.out, folder, asked, values, what, names=names, overwrite=config.overwrite)
            return values
    finally:
        shared.close()


def _what(config: PredictConfig, task: Task, decoder: str | None) -> What:
    """Return what is predicted, by what a run has learned: links where it has a decoder.

    Raises:
        InputError: for what such a run does not give.
    """
    if decoder is None:
        what: What = config.what or ("values" if task == "regression" else "classes")
        if what in OF_PAIRS:
            raise InputError(f"--what {what} is for runs of links, and {config.run} has learned labels")
        check_what(what, task, "--what")
        return what
    if config.what not in (*OF_PAIRS, "embeddings"):
        raise InputError(
            f"{config.run} has learned links; say --what scores with --pairs, --what neighbours or --what embeddings"
        )
    if config.what == "neighbours" and decoder not in PRODUCTS and config.candidates == "all":
        raise InputError(
            f"--what neighbours calls the decoder {decoder} on each vertex with every candidate; name fewer than all "
            "by --candidates"
        )
    return config.what


def _asked(
    what: What,
    vertices: str | ArrayLike,
    pairs: str | Path | ArrayLike | None,
    candidates: str | ArrayLike,
    layout: Layout,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Vertices, or pairs [M, 2], that were asked for, and the vertices whose vectors that needs; global ids."""
    if what == "scores":
        assert pairs is not None
        of_pairs = asked_pairs(pairs, layout)
        return of_pairs, of_pairs.reshape(-1)
    asked = asked_vertices(vertices, layout)
    if what != "neighbours":
        return asked, asked
    return asked, np.concatenate([asked, asked_vertices(candidates, layout, "--candidates")])


def _pair_spec(config: PredictConfig, what: What, decoder: nn.Module | None, width: int | None) -> PairSpec | None:
    if what not in OF_PAIRS:
        return None
    assert decoder is not None
    assert width is not None
    return PairSpec(
        pickled_decoder=prepared.in_bytes(decoder, f"the decoder {type(decoder).__name__}"),
        width=width,
        top_k=(config.top_k or TOP_K) if what == "neighbours" else None,
        drops_known=config.known == "drop",
    )


def _check_missing(
    missing: NDArray[np.int64], asked: NDArray[np.int64], what: str, names: NamesInOutput, config: PredictConfig
) -> None:
    """Refuse vertices whose vectors are not finite, or tell of them where --allow-nan takes them."""
    if not len(missing):
        return
    first = missing[0]
    called = f"{first}" if names.ids is None else names.ids.shown(first)
    of, which = ("vectors", "needed") if what in OF_PAIRS else ("logits", "asked for")
    of, number = what if what == "embeddings" else of, len(np.unique(asked)) if what in OF_PAIRS else len(asked)
    found = f"{len(missing):,} of the {number:,} vertices {which} have {of} that are not finite, first {called}"
    if not config.allow_nan:
        raise InputError(
            f"{found}; look at the features and the model in {config.run}, or write them as missing with --allow-nan"
        )
    logger.warning("%s; they are written as missing", found)


def _check_memory(
    model: prepared.Prepared,
    layout: Layout,
    asked: NDArray[np.int64],
    trained_with: TrainConfig,
    level: int,
    trainers: int,
    *,
    copies: int,
) -> None:
    """Refuse exact predictions that do not fit into memory, before anything is started."""
    precision = Precision.named(trained_with.precision)
    loader = SplitLoader.from_host(layout, model.needs, dtype=precision.dtype)
    layers = single_layers_of(model.model.to(precision.dtype).eval(), loader, trained_with.layers, warns=False)
    if layers is None:
        return
    check_evaluation_fits(
        layout,
        [
            Asked(
                what="the vertices asked for",
                ids=np.sort(Request(asked, layout.permutation).in_order()),
                copies=copies,
            )
        ],
        layers.widths[: level + 1],
        precision=precision,
        trainers=trainers,
        instead="--fan-out samples neighbours and takes less; so do fewer --vertices",
    )


def _check_offers(model: nn.Module, level: int, num_layers: int) -> None:
    if level < num_layers and not hasattr(model, "forward_layer") and not hasattr(model, "forward_until"):
        raise InputError(
            f"the model {type(model).__name__} has neither forward_layer nor forward_until, which would give the "
            f"embeddings of layer {level}; ask for --what logits"
        )


def _with_trained(run: Path, trained_on: Any, layout: Layout, trained: Tensor) -> Layout:
    """The layout with the features that a run has trained, which are of one graph alone."""
    same = isinstance(trained_on, dict) and trained_on.get("store_checksum") == layout.store_checksum
    if not same or len(trained) != layout.graph.num_vertices:
        raise InputError(
            f"{layout.path} was made from another store than the one whose vertices the run in {run} has trained the "
            "features of (--train-features)"
        )
    return replace(layout, graph=replace(layout.graph, features=trained.numpy()[layout.permutation]))


def _grown(trained_on: dict[str, Any], layout: Layout) -> bool:
    """Return whether the store of a layout was grown from the one that a run was trained on.

    Raises:
        InputError: for a layout that says so and has fewer vertices, or labels of another kind.
    """
    where = str(layout.path / LAYOUT)
    if trained_on["store_checksum"] not in grown_from(layout.description["store"], where):
        return False
    graph, vertices = layout.graph, trained_on.get("num_vertices")
    same = bool(trained_on.get("regression")) == graph.regression and trained_on["multi_label"] == graph.multi_label
    if (isinstance(vertices, int) and vertices > graph.num_vertices) or (graph.num_classes and not same):
        raise InputError(f"{where} is damaged: no store with these counts was grown from the one of the run")
    return True


def _class_names(run: Path, trained_on: Any, layout: Layout) -> tuple[str, ...] | None:
    """Names of the classes that a run has learned, those of the layout where the run does not say."""
    if not isinstance(trained_on, dict) or not isinstance(count := trained_on.get("num_classes"), int):
        return layout.classes
    return names_described(trained_on, count, str(run / "model.json"))


def _check_graph(run: Path, trained_on: dict[str, Any] | None, layout: Layout) -> Task:
    """Return what the run has learned of a vertex; as the layout says where the run does not."""
    graph = layout.graph
    if graph.num_features == 0:
        raise InputError(f"{layout.path} has no features, so there is nothing to predict from")
    if trained_on is None:
        logger.warning("%s does not say which graph it was trained on, so that is not compared", run)
        return graph.task
    kinds = {"num_features": int, "multi_label": bool, "store_checksum": str}
    if not isinstance(trained_on, dict) or any(not isinstance(trained_on.get(k), kind) for k, kind in kinds.items()):
        raise InputError(f"{run / 'model.json'} is damaged where it says which graph the run was trained on")
    if trained_on["num_features"] != graph.num_features:
        raise InputError(
            f"{layout.path} has {graph.num_features} features a vertex, but the run in {run} was trained with "
            f"{trained_on['num_features']}"
        )
    if trained_on["store_checksum"] != layout.store_checksum:
        if not _grown(trained_on, layout):
            logger.warning("%s was made from another store than the one the run in %s trained on", layout.path, run)
        elif (learned := trained_on.get("num_classes")) != graph.num_classes:
            logger.warning(
                "%s has %s classes since its store has grown, and the run in %s has learned %s: others are never "
                "predicted",
                layout.path,
                graph.num_classes,
                run,
                learned,
            )
    return "regression" if trained_on.get("regression") else "labels" if trained_on["multi_label"] else "classes"
