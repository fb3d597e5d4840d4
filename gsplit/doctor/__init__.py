"""``gsplit doctor``: what this host has, what training would take of it, and what would keep it from working."""
