"""Several hosts, which are namespaces of this machine: GSplit's epochs there beside DistDGL's and PyG's.

`namespaces.py`, `host_init.py` and `wire.cpp` make the hosts, each with an address, a name and memory, and the wire
between them; tests of hosts have them, too. `systems.py` starts each system on them; `one_trainer.py` and
`distdgl.py` run there beside ours, and `__main__.py` is the experiment.
"""
