"""What torchrun prints as the cause of a failure, and what a start after that finds of it.

torchrun starts all trainers again whatever they ended of, also of a mistake that the next start would make again, and
say again. It keeps the causes of each start in a folder of its own, ``attempt_N/LOCAL_RANK``: so the next start sees
that there was one, and ends at once, with nothing more to say.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from gsplit.hosts.place import Place

ATTEMPT = "attempt_{}"


def write_error_file(place: Place, line: str, *, mistake: bool = False) -> None:
    """Have torchrun print the cause of a failure, in the words of this trainer.

    Args:
        place: of this trainer.
        line: the cause.
        mistake: whether the user has made it, and another start would end of it, too.
    """
    if place.error_file is None:
        return
    about = {"message": line, "extraInfo": {"timestamp": str(int(time.time())), "mistake": mistake}}
    with suppress(OSError), open(place.error_file, "w") as file:
        json.dump({"message": about}, file)


def mistake_before(place: Place) -> str | None:
    """The mistake that ended the start before this one; None where it ended of something else, or there was none."""
    if place.error_file is None or place.restarts == 0:
        return None
    file = Path(place.error_file)
    of_start = file.parents[1]
    if of_start.name != ATTEMPT.format(place.restarts):
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = of_start.with_name(ATTEMPT.format(place.restarts - 1)) / file.parent.name / file.name
        message = json.loads(before.read_text())["message"]
        return str(message["message"]) if message["extraInfo"]["mistake"] is True else None
    return None
