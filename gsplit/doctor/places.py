"""What hosts are to each other, where torchrun or its like has started doctor once for each trainer."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from gsplit.data import open_layout
from gsplit.errors import InputError
from gsplit.hosts import Place
from gsplit.launch.placed import met
from gsplit.parallel.meeting import Meeting
from gsplit.units import binary

TURNS = 20
"""Bytes that go to and fro, one at a time, for the round trip."""
SENT_BYTES = 1 << 24
"""Bytes that go one way for the rate."""
ANSWER_S = 30.0
"""Seconds within which a host is to answer another."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a trainer sees of its host."""

    name: str
    """Name of the host."""
    interface: str
    """The network interface that leads to the others."""
    address: str
    """Its address."""
    loopback: str | None
    """The address of loopback that the host's own name leads to; None where it leads elsewhere, or nowhere."""
    checksum: str | None
    """Of its layout; None where none was named."""
    round_trip_s: float | None = None
    """Seconds until the first host answers; None on it."""
    bytes_per_s: float | None = None
    """Rate at which that takes what is sent."""


def examine_places(place: Place, layout: Path | None, silence_s: float) -> list[str] | None:
    """Look at the ways between hosts; all trainers make the call. Lines to print, on trainer 0.

    Raises:
        InputError: where the trainers do not meet, differ in what must be the same, or have no way to each other.
    """
    with met(place, silence_s) as meeting:
        checksum = None if layout is None else open_layout(layout, typed=True).checksum
        first = meeting.gather("checksum", checksum)[0]
        if checksum != first:
            raise InputError(f"{layout} is another layout than that of trainer 0; copy one layout to all hosts")
        trip_s, rate = _to_first(meeting) if place.local == 0 else (None, None)
        seen = meeting.gather(
            "seen",
            Seen(
                name=place.name,
                interface=meeting.interface,
                address=place.interface_address,
                loopback=_loopback(place.name),
                checksum=checksum,
                round_trip_s=trip_s,
                bytes_per_s=rate,
            ),
        )
        return list(_lines(place, seen)) if place.rank == 0 else None


def _lines(place: Place, seen: list[Seen]) -> Iterator[str]:
    first = seen[0].name
    yield f"{place.world} trainers on {place.hosts} host{'s' * (place.hosts > 1)}, started by {place.by}"
    for rank in range(0, place.world, place.here):
        each, way = seen[rank], ""
        if each.round_trip_s is not None and each.bytes_per_s is not None:
            way = f", {1000 * each.round_trip_s:.2f} ms to {first} and back, {binary(each.bytes_per_s)} a second"
        trainers = f"trainers {rank} to {rank + place.here - 1}"
        yield f"  {each.name}, {trainers}, by {each.interface} at {each.address}{way}"
    if seen[0].checksum is not None:
        yield f"  all have the layout with checksum {seen[0].checksum}"
    for rank in range(0, place.world, place.here):
        if (each := seen[rank]).loopback is not None and place.hosts > 1:
            yield (
                f"note: the name {each.name} leads to {each.loopback} on {each.name} itself, which no other host "
                "reaches; it is no MASTER_ADDR, unless /etc/hosts is mended"
            )


def _loopback(name: str) -> str | None:
    with suppress(OSError):
        address = socket.gethostbyname(name)
        return address if address.startswith("127.") else None
    return None


def _to_first(meeting: Meeting) -> tuple[float | None, float | None]:
    """Round trip and rate from this host to the first, which answers one after the other."""
    place = meeting.place
    hosts = range(place.here, place.world, place.here)
    if place.rank:
        port = meeting.hear(f"turn/{place.rank}", timedelta(seconds=ANSWER_S * place.hosts))
        address = meeting.hear("answers at")
        try:
            with socket.create_connection((address, port), ANSWER_S) as way:
                return _measured(way)
        except OSError as error:
            raise InputError(
                f"{address}, port {port}, of trainer 0's host is not reached ({error}); let a firewall allow all "
                "ports between the hosts"
            ) from None
    with socket.create_server((place.interface_address, 0)) as listener:
        listener.settimeout(ANSWER_S)
        meeting.tell("answers at", place.interface_address)
        for rank in hosts:
            meeting.tell(f"turn/{rank}", listener.getsockname()[1])
            try:
                _answer(listener.accept()[0])
            except OSError:
                meeting.look()
                raise InputError(f"trainer {rank} did not come by {meeting.interface}; look at firewalls") from None
    return None, None


def _measured(way: socket.socket) -> tuple[float, float]:
    way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips_s = []
    for _ in range(TURNS):
        start_s = time.perf_counter()
        way.sendall(b"?")
        way.recv(1)
        trips_s.append(time.perf_counter() - start_s)
    start_s = time.perf_counter()
    way.sendall(bytes(SENT_BYTES))
    way.recv(1)
    return statistics.median(trips_s), SENT_BYTES / (time.perf_counter() - start_s)


def _answer(way: socket.socket) -> None:
    way.settimeout(ANSWER_S)
    way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with way:
        for _ in range(TURNS):
            way.recv(1)
            way.sendall(b"!")
        left = SENT_BYTES
        while left:
            left -= len(way.recv(min(left, 1 << 20)) or bytes(left))
        way.sendall(b"!")
