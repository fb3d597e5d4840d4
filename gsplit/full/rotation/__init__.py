"""Layer rotation on a grid of three axes, as Plexus trains GCN on the whole graph (Ranjan et al., SC 2025)."""

from gsplit.full.rotation.planes import PlaneOrder, Planes, Roles, orders_of, roles_of
from gsplit.full.rotation.rotated import Ends, Rotated, RotatedLayer
from gsplit.full.rotation.rotated_volumes import Turns, volumes_of_turns

__all__ = ["Ends", "PlaneOrder", "Planes", "Roles", "Rotated", "RotatedLayer"]
__all__ += ["Turns", "orders_of", "roles_of", "volumes_of_turns"]
