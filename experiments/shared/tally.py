"""Counts of what must not be, over numbered cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


class Tally:
    """How cases ended, and the problems that were found in them.

    Args:
        problems: every problem that is counted.
        ends: every end that is counted; others may come.
    """

    def __init__(self, problems: Iterable[str], ends: Iterable[str] = ()) -> None:
        self.counted = Counter(dict.fromkeys(problems, 0))
        self.ends = Counter(dict.fromkeys(ends, 0))
        self.found: list[dict[str, Any]] = []
        self.slowest_s = 0.0

    def add(
        self, number: int, case: object, end: object, problems: Mapping[str, str], seconds: float | None = None
    ) -> None:
        """Count a case, and print its problems.

        Args:
            number: which the case has for a seed.
            case: says what was done.
            end: how it ended, such as an exit code.
            problems: problem -> what was seen.
            seconds: that it took to end, where that counts.
        """
        self.ends[str(end)] += 1
        self.slowest_s = max(self.slowest_s, seconds or 0.0)
        self.counted.update(problems.keys())
        for problem, what in problems.items():
            self.found.append({"number": number, "case": str(case), "problem": problem, "what": what})
            print(f"{problem}: {case}\n    {what}", flush=True)

    def record(self) -> dict[str, Any]:
        """How many cases there were, what was counted, how they ended, and what was found."""
        return {
            "cases": sum(self.ends.values()),
            "counted": dict(self.counted),
            "ends": dict(self.ends),
            "found": self.found,
        }
