"""Baselines: other systems that ours is compared with, as the experiments call them."""
