"""How a run goes from one mini-batch to the next, for the engine's own loop and for a user's."""
