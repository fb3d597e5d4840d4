"""What is learned, one module for each kind of labels (:mod:`gsplit.engine.objective` chooses)."""
