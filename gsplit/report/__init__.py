"""A page of training runs: what they learned, and what their epochs took, as HTML that needs no network."""
