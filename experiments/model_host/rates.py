"""Hosts as small TOML files: the rates of their devices, each with its unit and its source.

    name = "two GPUs"
    [device_memory]
    value = 1008
    unit = "GB/s"
    reached = 0.6
    source = "the vendor's data sheet; 0.6: an assumption"

Every figure is a table of this form. ``reached`` is the share of the documented value that is assumed to be reached,
1 by default. Units of bytes are decimal (1 GB is 1,000,000,000 bytes), and rates of links are those of one direction.
The figures are the fields of :class:`Host`. ``peer_read``, ``cores``, ``nic`` and ``nic_latency`` may be left out.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from gsplit.errors import InputError
from gsplit.toml import tomllib

FOLDER = Path(__file__).parent / "hosts"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
"""Hosts that come with the project."""
BYTES = {"MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
NETWORK = {"Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8}
FLOPS = {"GFLOP/s": 1e9, "TFLOP/s": 1e12}
TIME = {"us": 1e-6, "ms": 1e-3}
EDGES = {"M edges/s": 1e6}
GPUS, SAMPLERS, CORES = {"GPUs": 1.0}, {"samplers": 1.0}, {"cores": 1.0}
TCP_REACHES = 0.8
"""Share of a network's rate that is assumed to be reached."""
COUNTS = (GPUS, SAMPLERS, CORES)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a host, with where it is from."""

    value: float
    unit: str
    source: str
    reached: float = 1.0
    """Share of the documented value that is assumed to be reached."""
    factor: float
    """What the unit is in bytes, FLOP, edges a second, or in seconds."""

    @property
    def rate(self) -> float:
        """What the model reckons with, in bytes, FLOP or edges a second, in seconds, or a count."""
        return self.value * self.factor * self.reached


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the model knows of a host with several equal devices."""

    name: str
    gpus: Annotated[Figure, GPUS]
    """Devices that train."""
    device_memory: Annotated[Figure, BYTES]
    """Memory of a device, reading and writing together."""
    device_flops: Annotated[Figure, FLOPS]
    """Float32 operations of a device."""
    operation_latency: Annotated[Figure, TIME]
    """What an operation on a device takes that has next to nothing to do."""
    host_bus: Annotated[Figure, BYTES]
    """A link from the host to devices."""
    gpus_per_bus: Annotated[Figure, GPUS]
    """Devices that share such a link."""
    copy_latency: Annotated[Figure, TIME]
    """What a copy from the host takes before its first byte arrives."""
    host_memory: Annotated[Figure, BYTES]
    """Memory of the host, which all devices read from."""
    peer_pair: Annotated[Figure, BYTES]
    """From one device to another."""
    peer_device: Annotated[Figure, BYTES]
    """From one device to all others together."""
    message_latency: Annotated[Figure, TIME]
    """What messages between devices that leave together take before their first byte arrives."""
    peer_read: Annotated[Figure | None, BYTES] = None
    """Rows out of the memory of other devices, to one device; absent where devices cannot read each other's."""
    samplers: Annotated[Figure, SAMPLERS]
    """Processes that sample ahead of training."""
    sampling: Annotated[Figure, EDGES]
    """Edges that one of them samples and splits."""
    cores: Annotated[Figure | None, CORES] = None
    """Cores that trainers, feeds and samplers share; absent where devices compute."""
    nic: Annotated[Figure | None, NETWORK] = None
    """Network cards of the host together, to other hosts; absent where it is alone."""
    nic_latency: Annotated[Figure | None, TIME] = None
    """What messages to another host take before their first byte arrives."""

    def figures(self) -> dict[str, Figure]:
        """All figures by name, without those that are left out."""
        every = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "name"}
        return {name: figure for name, figure in every.items() if figure is not None}


def open_host(host: str) -> Host:
    """The host of this name, or of a file.

    Raises:
        InputError: for a name that is none, and for what a file has wrong.
    """
    if host in NAMES:
        return read_host(FOLDER / f"{host}.toml")
    path = Path(host)
    if not path.is_file():
        raise InputError(f"--host {host}: it is one of {', '.join(NAMES)}, this, or a file of this form (see --help)")
    return read_host(path)


def with_card(host: Host, gbit: int | None) -> Host:
    """The host with a network card of this rate, which TCP reaches as far as it is assumed to; None: with its own.

    Raises:
        InputError: where it has none.
    """
    if gbit is not None:
        source = f"--nic-gbit; {TCP_REACHES} over TCP: assumed"
        card = Figure(value=gbit, unit="Gbit/s", factor=NETWORK["Gbit/s"], reached=TCP_REACHES, source=source)
        latency = Figure(value=50, unit="us", factor=TIME["us"], source="assumed: a message over TCP")
        return replace(host, nic=card, nic_latency=latency)
    if host.nic is None:
        raise InputError(f"{host.name} has no 'nic', a network card, to predict several hosts by; give --nic-gbit")
    return host


def read_host(path: Path) -> Host:
    """The host that a file describes.

    Raises:
        InputError: for a file that cannot be read, an unknown or a missing key, a wrong unit or value.
    """
    try:
        tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    try:
        return host_of(tables)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def host_of(tables: dict[str, Any]) -> Host:
    """The host that tables describe, as a file has them.

    Raises:
        InputError: for an unknown or a missing key, a wrong unit or value, and counts that contradict each other.
    """
    known = {each.name: each for each in fields(Host)}
    for key in tables:
        if key not in known:
            raise InputError(f"unknown key {key!r}; a host has {', '.join(known)}")
    for key, each in known.items():
        if key not in tables and each.default is MISSING:
            raise InputError(f"{key!r} is missing")
    name = tables["name"]
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"'name' must be text, not {name!r}")
    hints = get_type_hints(Host, include_extras=True)
    units = {key: hint.__metadata__[0] for key, hint in hints.items() if key != "name"}
    given = {key: figure_of(key, tables[key], units[key]) for key in tables if key != "name"}
    host = Host(name=name, **given)
    if host.gpus_per_bus.rate > host.gpus.rate:
        raise InputError(f"'gpus_per_bus' is {host.gpus_per_bus.value}, 'gpus' only {host.gpus.value}")
    if (host.nic is None) != (host.nic_latency is None):
        raise InputError("'nic' and 'nic_latency' go together: give both, or neither")
    return host


def figure_of(key: str, table: Any, units: dict[str, float]) -> Figure:
    """The figure that a table of a host's file holds.

    Args:
        key: its name, for messages.
        table: with ``value``, ``unit``, ``source`` and perhaps ``reached``.
        units: that it may have, each with its factor.

    Raises:
        InputError: for an unknown or a missing key, a wrong unit or value.
    """
    if not isinstance(table, dict):
        raise InputError(f"{key!r} must be a table with value, unit and source, not {table!r}")
    if unknown := [name for name in table if name not in ("value", "unit", "source", "reached")]:
        raise InputError(f"{key!r} has an unknown key {unknown[0]!r}; it has value, unit, source and perhaps reached")
    if missing := [name for name in ("value", "unit", "source") if name not in table]:
        raise InputError(f"{key!r} has no {missing[0]!r}")
    if table["unit"] not in [*units]:
        raise InputError(f"{key!r} is in {' or '.join(units)}, not in {table['unit']!r}")
    if not isinstance(table["source"], str) or not table["source"].strip():
        raise InputError(f"{key!r} needs its source in words")
    value, reached = (table.get(name, 1.0) for name in ("value", "reached"))
    for name, number in (("value", value), ("reached", reached)):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < math.inf:
            raise InputError(f"{name!r} of {key!r} must be a number above 0, not {number!r}")
    if units in COUNTS and (value != int(value) or reached != 1):
        raise InputError(f"{key!r} must be a whole number, all of it reached, not {value} x {reached}")
    if reached > 1:
        raise InputError(f"'reached' of {key!r} is a share of the value, at most 1, not {reached}")
    return Figure(
        value=value, unit=table["unit"], source=table["source"], reached=reached, factor=units[table["unit"]]
    )
