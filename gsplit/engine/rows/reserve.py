"""What training takes of an accelerator beside a cache: as a dry run found it, before anything is started.

| what | bytes |
|---|---|
| a step | what a dry run of it took (:mod:`gsplit.engine.dry.dry_step`), with mini-batches that are loaded ahead |
| evaluation | a chunk of the layer that takes most, beside what is kept between steps; it comes after a step |
| ``--metrics`` | logits and labels of the training vertices of an epoch |

What PyTorch's allocator, NCCL and the kernels' workspaces take on top only a GPU shows; what is left free in any case
(:mod:`gsplit.features.room`) stands for them.
"""

from __future__ import annotations

from gsplit.config.sampling import RULES
from gsplit.data import Layout
from gsplit.engine.evaluation.evaluation_memory import chunk_bytes
from gsplit.engine.evaluation.typed_memory import TypedLevels
from gsplit.engine.level_widths import widths_of
from gsplit.engine.run import Run
from gsplit.nn import TypedLayeredModel

UNEVEN = 1.25
"""The largest share of the training vertices that one trainer has, over the mean."""


def reserve_of(run: Run, layout: Layout) -> int | None:
    """Bytes of an accelerator that one trainer takes beside its cache; None where a dry run did not tell.

    Args:
        run: as decided.
        layout: with features.
    """
    step, config = run.step, run.config
    if step is None:
        return None
    after = step.kept + (1 + config.prefetch) * step.mini_batch + evaluation_bytes(run, layout)
    return said_bytes(run, layout) + max(step.reserved(config.prefetch), after)


def evaluation_bytes(run: Run, layout: Layout) -> int:
    """Bytes of a chunk of exact evaluation, from above; of what is sampled, a mini-batch takes less than a step."""
    if run.config.evaluate != "exact":
        return 0
    model = run.new_model()
    if isinstance(model, TypedLayeredModel):
        return TypedLevels(layout, model).chunk_bytes(run.precision, run.trainers)
    widths = widths_of(model, layout.graph.num_features, run.config.layers)
    return chunk_bytes(layout, widths, run.precision, run.trainers)


def said_bytes(run: Run, layout: Layout) -> int:
    """Bytes of the logits and labels that ``--metrics`` keeps of an epoch's mini-batches."""
    graph, config = layout.graph, run.config
    if config.metrics is None:
        return 0
    # Sets that are drawn may have a training vertex several times an epoch, which throws a dart for each vertex.
    logits = graph.num_vertices if RULES[config.sampling].draws_targets else len(graph.train_idx)
    of_labels = 4 * graph.num_classes if graph.task != "classes" else 8
    return int(min(1.0, UNEVEN / run.trainers) * logits * (graph.num_classes * run.dtype.itemsize + of_labels))
