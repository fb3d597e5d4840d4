"""Tables and figures: one module each, with the command and the recorded results in docs/results.md."""

from gsplit import starting

starting.watch(__name__)
