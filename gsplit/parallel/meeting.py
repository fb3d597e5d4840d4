"""What trainers that were started one by one tell each other by a store: before they have joined, and at the end.

Whatever ends one of them ends all, and each is to say why. So a trainer that fails writes that down, once for all; a
trainer that only sees a connection break waits a moment for what another has written.
"""

from __future__ import annotations

import functools
import os
import pickle
import secrets
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import psutil
import torch.distributed as dist

from gsplit.errors import InputError, refused_by_host
from gsplit.host import interruptible
from gsplit.hosts import Place
from gsplit.parallel.mailboxes import is_alive
from gsplit.starting import BAD_INPUT, FAILED, INTERRUPTED
from gsplit.waiting import until

TIMEOUT = timedelta(minutes=10)
"""How long trainers wait for the store to be there."""
SHORT = timedelta(seconds=30)
"""How long one waits for it that has only to tell others that its place is wrong."""
LONGEST = timedelta(hours=12)
"""How long a trainer waits for what another tells, who may have much to read or to evaluate; one that is gone is
found out sooner."""
GRACE_S = 2.0
"""Seconds in which the cause of a broken connection is to be written down."""
LEAVE_S = 5.0
"""Seconds that the trainer with the store stays for the others to read in it, at most."""
SOON_S = 2.0
"""The same where one has ended without a word, and with it perhaps all of its host."""
PULSE = "pulse/{}"
"""Key of what a host counts, by its number, while its first trainer lives."""
LEFT = "left/{}"
"""Key of a trainer, by its rank, that reads nothing more."""
COMERS, STARTED = "comers", "started/{}"
"""Keys of the number of trainers that have come, and of the name of their start, by that number."""
FIRST_START = "first"
"""Name of a start whose store begins with it."""
BEGUN = "begun/{}"
"""Key of the host on which a run was begun, by the run."""
LOOPBACK_INTERFACE = "lo"
"""Name of the interface by which a host reaches itself alone."""
_meetings = [0]
"""Number of meetings of this process."""


@dataclass(frozen=True, kw_only=True)
class End:
    """Why a run ended before its end."""

    line: str
    """In one line."""
    code: int
    """The exit code that all trainers end with."""
    trace: str = ""
    """Where it is a fault of ours: its traceback."""
    gone: int | None = None
    """The trainer that has ended without a word, by its rank, where that is why."""

    @classmethod
    def of(cls, error: BaseException, place: Place) -> End:
        """What ended a trainer, with its host's name."""
        who = f"{place.name}, trainer {place.rank}"
        if isinstance(error, KeyboardInterrupt):
            return cls(line=f"{who}: interrupted", code=INTERRUPTED)
        if isinstance(error, SystemExit):
            return cls(line=f"{who}: terminated", code=error.code if isinstance(error.code, int) else FAILED)
        if isinstance(error, InputError):
            return cls(line=f"{place.name}: {' '.join(str(error).split())}", code=BAD_INPUT)
        if (line := refused_by_host(error)) is not None:
            return cls(line=f"{who}: {line}", code=BAD_INPUT)
        words = "".join(traceback.format_exception(error)).strip()
        return cls(line=f"{who} failed: {words.splitlines()[-1]}", code=FAILED, trace=words)


class Meeting:
    """One trainer's connection to the store. All make as many, one after the other.

    Args:
        place: of this trainer.

    Raises:
        InputError: where the store does not answer.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        _meetings[0] += 1
        self.interface = interface_of(place)
        """Name of the network interface that leads to the other hosts."""
        keys, raw = f"gsplit/{place.step}/{_meetings[0]}", _connected(place, opens=not place.served)
        self._all_starts = dist.PrefixStore(keys, raw)
        self._start = self._agreed() if place.served else FIRST_START
        self._keys = f"{keys}/{self._start}"
        self.store: dist.Store = dist.PrefixStore(self._keys, raw)
        """The store; its keys are this meeting's alone."""
        self.restarts = place.restarts
        """How often the trainers were started again, by the starter that says most; once they are introduced."""
        self.names: dict[int, str] = {}
        """The names of the hosts of all trainers, by rank; once they are introduced."""
        self._welcomed = 0
        """Number of those who came, in this start and in those before, that know the name of this one."""
        self._speaks = False
        self._end: End | None = None
        """Why the run ends, once that is read; the store may be gone when this trainer ends."""
        self._pids: dict[int, int] = {}
        """The processes of this host's trainers, by rank."""

    def client(self) -> dist.Store:
        """Another connection to the store: one that waits answers to nobody else."""
        return dist.PrefixStore(self._keys, _connected(self.place, opens=False))

    def _agreed(self) -> str:
        """The name of this start, by trainer 0, where the store outlives it: keys of starts before are there, too.

        Starters' counts do not tell: each host has its own, and one that comes or goes adds nothing to them.
        """
        if self.place.rank == 0:
            return secrets.token_hex(8)
        key = STARTED.format(self._all_starts.add(COMERS, 1))
        if not until(lambda: self._all_starts.check([key]), TIMEOUT.total_seconds()):
            raise InputError(
                f"trainer 0 did not come to {self.place.address}:{self.place.port} within {TIMEOUT.seconds // 60} "
                "minutes; look at the output of its host"
            )
        return self._all_starts.get(key).decode()

    def _welcome(self) -> None:
        """Tell those who have come the name of this start, as trainer 0; who came to one before does not listen."""
        if self.place.rank == 0 and self.place.served and not self.names:
            while self._welcomed < self._all_starts.add(COMERS, 0):
                self._welcomed += 1
                self._all_starts.set(STARTED.format(self._welcomed), self._start)

    def job(self) -> dict[str, str]:
        """What names the job, by who gave it the name; a store that outlives its trainers has one, too."""
        if not self.place.served:
            return dict(self.place.jobs)
        token = self._all_starts.compare_set("job", "", secrets.token_hex(8)).decode()
        return {**self.place.jobs, "store": token}

    def was_begun(self, run: Path) -> str | None:
        """Name of the host on which a start before has begun a run; None where none has, or the store is new."""
        key = BEGUN.format(run)
        return self._all_starts.get(key).decode() if self._all_starts.check([key]) else None

    def note_begun(self, run: Path) -> None:
        """Write down that a run is begun on this host, for starts to come."""
        self._all_starts.set(BEGUN.format(run), self.place.name)

    def tell(self, key: str, value: Any) -> None:
        """Write down what all may read; it can be pickled."""
        self.store.set(key, pickle.dumps(value))  # type: ignore[arg-type]  # it takes bytes, too

    def hear(self, key: str, within: timedelta = LONGEST) -> Any:
        """Wait for what somebody tells.

        Args:
            key: of it.
            within: when to give up.

        Raises:
            Failure: where one has failed meanwhile.
            TimeoutError: where nobody tells it in time.
        """

        def told() -> bool:
            self._welcome()
            if not self.store.check([key]):
                self.look()
                return False
            return True

        # Not in the store: a signal would wait, too, and PyTorch warns of waits that end with nothing.
        if not until(told, within.total_seconds()):
            raise TimeoutError(f"no trainer has told {key!r} within {within}")
        return pickle.loads(self.store.get(key))

    def gather(self, key: str, value: Any) -> list[Any]:
        """What all tell, by rank; all make the call. Raises what :meth:`hear` does."""
        self.tell(f"{key}/{self.place.rank}", value)
        return [self.hear(f"{key}/{rank}") for rank in range(self.place.world)]

    def look(self) -> None:
        """Look whether a trainer has failed.

        Raises:
            Failure: where one has.
        """
        if (end := self.written(self.store)) is not None:
            raise Failure(end)

    def end_of(self, error: BaseException, cause: str | None = None) -> End:
        """Why the run ends, for a trainer that ``error`` ends; the same for all of them.

        Args:
            error: what ended it.
            cause: its words, where it is known that no other trainer is behind it.
        """
        if isinstance(error, Failure):
            return error.end
        own = End.of(error, self.place)
        if cause is not None:
            own = replace(own, line=f"{self.place.name}, trainer {self.place.rank}: {cause.splitlines()[-1]}")
        try:
            another = self._of_another() if own.code == FAILED and cause is None else None
            return self.write(another or own, self.store)
        except (dist.DistError, RuntimeError):  # the store has ended with its host, or with trainer 0
            if self._end is not None:
                return self._end
            if own.code != FAILED:
                return own
            where = "trainer 0" if not self.place.served else "the host of the store"
            line = (
                f"{where} at {self.place.address}:{self.place.port} has gone, through which trainers find each other"
            )
            return End(line=f"{self.place.name}: {line}", code=FAILED)

    def speaks(self, store: dist.Store | None = None) -> bool:
        """Return whether this trainer is the first of its host that asks, so that it is said once a host."""
        key = f"speaks/{self.place.host}/{self.place.name}"  # the number is wrong where a place is
        try:
            self._speaks = self._speaks or (store or self.store).add(key, 1) == 1
            return self._speaks
        except (dist.DistError, RuntimeError):
            # Where the store was trainer 0's, that has ended; it has said what was written, else the next one speaks.
            with_store = self.place.host == 0 and not self.place.served
            return self.speaks_alone if not with_store else self.place.local == 1 and self._end is None

    @property
    def speaks_alone(self) -> bool:
        """Whether this trainer speaks for its host where the store does not answer."""
        return self._speaks or self.place.local == 0

    def leave(self) -> None:
        """Say that this trainer reads nothing more; the one that has the store waits for the others."""
        with suppress(dist.DistError, RuntimeError):
            self.count_out(self.store)
            if self.place.rank == 0 and not self.place.served:
                end = self.written(self.store)
                gone = None if end is None else end.gone
                others = [LEFT.format(rank) for rank in range(self.place.world) if rank != gone]
                until(lambda: self.store.check(others), LEAVE_S if gone is None else SOON_S)

    def count_out(self, store: dist.Store) -> None:
        """Say that this trainer reads nothing more."""
        store.set(LEFT.format(self.place.rank), "")

    def introduce(self) -> None:
        """Say who this trainer is, and learn who the others are, for messages; all make the call.

        Raises:
            InputError: where not all come, or the others cannot reach this one.
        """
        self.tell(f"who/{self.place.rank}", (self.place.name, os.getpid(), self.place.restarts, network()))
        who, until_s = [], time.monotonic() + TIMEOUT.total_seconds()
        try:
            for rank in range(self.place.world):
                who.append(self.hear(f"who/{rank}", timedelta(seconds=max(0.0, until_s - time.monotonic()))))
        except TimeoutError:
            came = ", ".join(dict.fromkeys(name for name, *_ in who)) or "nobody before it"
            raise InputError(
                f"trainer {len(who)} of {self.place.world} did not come within {TIMEOUT.seconds // 60} minutes; "
                f"{came} came; look at the output of its host"
            ) from None
        self.names = {rank: name for rank, (name, *_) in enumerate(who)}
        self.restarts = max(restarts for _, _, restarts, _ in who)
        here = range(self.place.rank - self.place.local, self.place.rank - self.place.local + self.place.here)
        self._pids = {rank: who[rank][1] for rank in here}
        if self.interface == LOOPBACK_INTERFACE and any(other != network() for *_, other in who):
            raise InputError(
                f"MASTER_ADDR {self.place.address} is an address of loopback here, where other hosts reach nobody; "
                "mend /etc/hosts, or set it to an address of trainer 0's host"
            )

    def written(self, store: dist.Store) -> End | None:
        """Why the run ends, where a trainer has written it down."""
        if self._end is None and store.check(["end"]):
            self._end = pickle.loads(store.get("end"))
        return self._end

    def write(self, end: End, store: dist.Store) -> End:
        """Write down why the run ends, unless another has; what stands there."""
        there = store.compare_set("end", "", pickle.dumps(end))  # type: ignore[arg-type]
        self._end = cast("End", pickle.loads(there))
        return self._end

    def killed_here(self, store: dist.Store) -> End | None:
        """What is to be said of a trainer of this host that is gone without a word; None where all are there."""
        for rank, pid in self._pids.items():
            if not is_alive(pid) and not store.check([LEFT.format(rank)]):
                return self._killed(rank)
        return None

    def _of_another(self) -> End | None:
        """What another trainer has failed of, which broke a connection of this one's; None where nobody has."""
        self.tell(f"broken/{self.place.rank}", True)
        before = self._pulses()
        if (end := until(lambda: self.written(self.store) or self.killed_here(self.store), GRACE_S)) is not None:
            return end
        pulses = self._pulses()
        for rank in self.names:
            host = rank // self.place.here
            beats = host == self.place.host or pulses.get(host) != before.get(host)  # it only waits for this one
            if not beats and not self.store.check([f"broken/{rank}"]):
                return self._killed(rank)
        return None

    def _pulses(self) -> dict[int, bytes]:
        """What hosts have counted until now; those that have not begun are left out."""
        keys = {host: PULSE.format(host) for host in range(self.place.hosts)}
        return {host: self.store.get(key) for host, key in keys.items() if self.store.check([key])}

    def _killed(self, rank: int) -> End:
        pid = f" (pid {self._pids[rank]})" if rank in self._pids else ""
        return End(
            line=f"{self.names[rank]}, trainer {rank}{pid} has ended without a word: it was killed, as the kernel "
            "does where a host runs out of memory (see its log), or its host has gone",
            code=FAILED,
            gone=rank,
        )


class Failure(Exception):
    """Another trainer has failed."""

    def __init__(self, end: End) -> None:
        super().__init__(end.line)
        self.end = end


def network() -> tuple[str, int]:
    """What tells the network that this process sees from those of other hosts and containers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return boot, os.stat("/proc/self/ns/net").st_ino


def interface_of(place: Place) -> str:
    """Name of the network interface by which this host reaches the store's host.

    Raises:
        InputError: where there is none.
    """
    address = place.interface_address
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.split("%")[0] == address for each in addresses):
            return str(name)
    if address.startswith("127."):
        return LOOPBACK_INTERFACE
    raise InputError(f"no network interface of {place.name} has {address}, from which the way to MASTER_ADDR begins")


@functools.cache
def _opened(address: str, port: int) -> dist.TCPStore:
    """The store of trainer 0, for as long as its process lives; the one of PyTorch's default group, where that is."""
    return dist.TCPStore(
        address, port, world_size=None, is_master=True, wait_for_workers=False, timeout=TIMEOUT, multi_tenant=True
    )


def _connected(place: Place, *, opens: bool) -> dist.TCPStore:
    """A connection to the store, which trainer 0 opens where it ``opens`` one."""
    where = f"{place.address}:{place.port}"
    is_first = place.rank == 0 and opens
    within = TIMEOUT if place.mistake is None else SHORT
    try:
        with interruptible():
            if is_first:
                return _opened(place.address, place.port)
            return dist.TCPStore(
                place.address, place.port, world_size=None, is_master=False, wait_for_workers=False, timeout=within
            )
    except (dist.DistError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        if is_first:
            raise InputError(
                f"trainer 0 cannot open a store at MASTER_ADDR and MASTER_PORT, {where}: {why}; where another "
                "program has that port, set MASTER_PORT to a free one, the same for all trainers"
            ) from None
        raise InputError(
            f"nobody answers at MASTER_ADDR and MASTER_PORT, {where}, within {TIMEOUT.seconds // 60} minutes: {why}; "
            "look whether trainer 0 runs there, and whether a firewall lets the port through"
        ) from None
