"""``gsplit.predict``: check everything, start the trainers, give their rows a name."""

from __future__ import annotations

import copy
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from gsplit.config.fields import check_options
from gsplit.config.predict import OF_PAIRS, PredictConfig, What, check_what
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, open_layout
from gsplit.data.graph import Task
from gsplit.device.choice import choose_device, threads_of, trainers_of
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.company import check_company
from gsplit.engine.evaluation.evaluation_memory import Asked, Levels, OfOneType, check_evaluation_fits
from gsplit.engine.evaluation.single_layers import single_layers_of
from gsplit.engine.evaluation.typed_memory import TypedLevels
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
from gsplit.nn import TypedLayeredModel
from gsplit.parallel import rendezvous
from gsplit.predict import compute
from gsplit.predict.graphs import (
    check_graph,
    check_schema,
    check_trained,
    check_widths,
    class_names,
    own_fan_outs,
    type_of_vectors,
    with_features,
)
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
from gsplit.sampling import Reach

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
        gsplit.errors.ProcessDied: where a trainer fails; no process and no file is left then.

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
    opened = open_layout(real_path(config.layout), typed=True)
    signature, trained_on = described["signature"], described.get("graph")
    check_schema(config.run, signature, opened)
    reach = loaded.reach if isinstance(loaded, TypedLayeredModel) else None
    type_, types = type_of_vectors(config.type, level, reach, opened), _trained_types(opened, reach, trained)
    own = own_fan_outs(config, reach, level, type_, opened)
    if reach is not None:
        check_widths(config.run, signature, reach, opened, types)
    if trained is not None:
        check_trained(config.run, trained_on, opened, trained, types)
        if reach is None:
            opened = with_features(opened, trained)
    of_links = signature.get(DECODER)
    width = None if of_links is None else int(of_links["width"])
    task = check_graph(config.run, trained_on, opened if width is None else for_links(opened, width))
    what = _what(config, task, None if of_links is None else str(of_links["name"]))
    weighed = Weighed.of(signature, ready.needs, prepared.divisors_of(ready.model))
    check_weights_of_prediction(opened, weighed, config.fan_out)
    asked, needed = _asked(what, vertices, pairs, candidates, opened, type_)
    names = NamesInOutput(ids=opened.ids(), classes=class_names(config.run, trained_on, opened))
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
        _check_memory(ready, opened, needed, trained_with, level, type_, world, copies=int(what in OF_PAIRS))
    shared = Shared.create(0)
    try:
        with ending_tidily(), temporary_folder(config.out, needed) as folder, rendezvous(world) as port:
            if trained is not None:
                rows = trained.numpy()
                np.save(folder / FEATURES, rows if reach is not None else rows[opened.permutation])
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
                type_=type_,
                trained_types=types,
                fan_out=config.fan_out,
                fan_out_of=own,
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
    type_: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Vertices, or pairs [M, 2], that were asked for, and the vertices whose vectors that needs; global ids."""
    if what == "scores":
        assert pairs is not None
        of_pairs = asked_pairs(pairs, layout)
        return of_pairs, of_pairs.reshape(-1)
    asked = asked_vertices(vertices, layout, type_=type_)
    if what != "neighbours":
        return asked, asked
    return asked, np.concatenate([asked, asked_vertices(candidates, layout, "--candidates")])


def _trained_types(layout: Layout, reach: Reach | None, trained: Tensor | None) -> tuple[int, ...]:
    """Numbers of the types whose features a run has trained: those that it reaches and that have none."""
    if trained is None:
        return ()
    features = layout.graph.features_by_type
    return (0,) if reach is None else tuple(each for each in reach.types[0] if features[each] is None)


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
    type_: int,
    trainers: int,
    *,
    copies: int,
) -> None:
    """Refuse exact predictions that do not fit into memory, before anything is started."""
    precision, of_model = Precision.named(trained_with.precision), model.model
    levels: Levels
    if isinstance(of_model, TypedLayeredModel):
        levels = TypedLevels(layout, of_model, level, type_)
    else:
        loader = SplitLoader.from_host(layout, model.needs, dtype=precision.dtype)
        layers = single_layers_of(of_model.to(precision.dtype).eval(), loader, trained_with.layers, warns=False)
        if layers is None:
            return
        levels = OfOneType(layout, layers.widths[: level + 1])
    ids = np.sort(Request(asked, layout.permutations[type_]).in_order())
    check_evaluation_fits(
        levels,
        [Asked(what="the vertices asked for", ids=ids, copies=copies)],
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
