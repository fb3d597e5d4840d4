"""What experiments share.

- ``experiment``, ``flags``: a command, and kinds of flags that several have.
- ``rounds``: contenders in turn, their ratios, and whether the machine was quiet.
- ``results``, ``tally``: tables and records of what was found; counts of what must not be.
- ``processes``: runs in processes of their own, forked ones among them.
- ``datasets``, ``real_graphs``: stores and layouts, made once; ``ownership``, ``placements``: who has which vertex.
- ``systems``, ``traffic``, ``slab_path``: what the paper's systems move; mini-batches through the slots.
- ``same_run``: whether two runs are the same bit for bit.
"""
