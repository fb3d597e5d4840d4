"""The feature rows of a trainer: on the host, in its cache, and the memory that they may take."""
