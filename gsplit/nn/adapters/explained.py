"""What is said of the mistakes that models of whole graphs make on blocks."""

from __future__ import annotations


def explained(error: Exception, model: str) -> str | None:
    """One line for an error in a model's forward, with the way out; None for an error of another kind.

    Args:
        error: that it raised.
        model: its name.
    """
    said = str(error).lower()
    if isinstance(error, RuntimeError) and "size" in said and "match" in said:
        return (
            f"forward of {model} joins rows of different levels ({error}); a convolution gives its destinations "
            "alone, so take x[: out.shape[0]] of what it got, or JumpingKnowledge of PyG"
        )
    if "tuple" in said:
        return (
            f"a convolution of {model} does not take x as a pair ({error}); on a block it gets "
            "(x_source, x_destination), as in docs/bring_your_own_model.md"
        )
    return None
