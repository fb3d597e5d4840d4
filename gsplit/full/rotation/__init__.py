"""Layer rotation on a grid of three axes, as Plexus trains GCN on the whole graph (Ranjan et al., SC 2025)."""

from gsplit.full.rotation.planes import PlaneOrder, Planes, Roles, orders_of, roles_of
from gsplit.full.rotation.rotated import Ends, Rotated, RotatedLayer, Summed
from gsplit.full.rotation.rotated_volumes import Turns, resting_rows, volumes_of_turns
from gsplit.full.rotation.skips import Relaid

__all__ = ["Ends", "PlaneOrder", "Planes", "Relaid", "Roles", "Rotated", "RotatedLayer", "Summed"]
__all__ += ["Turns", "orders_of", "resting_rows", "roles_of", "volumes_of_turns"]
