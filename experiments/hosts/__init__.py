"""Several hosts, which are namespaces of this machine, each with an address, a name and memory, on a wire.

`namespaces.py`, `host_init.py` and `wire.cpp` make them; tests of hosts have them, too.
"""
