"""Several hosts: which trainer this process is, by who started it, and descriptors for its peers. Imports no torch.

torchrun | srun | mpirun            one process a trainer, with its place in the environment
│
place ─► Place(rank, world, local, here, host, ...); None: this process starts its trainers itself
│
handing ─► memory, pipes, slots: from the first trainer of a host to the others
"""

from gsplit.hosts.place import Place, place_of

__all__ = ["Place", "place_of"]
