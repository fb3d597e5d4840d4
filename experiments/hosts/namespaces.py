"""Hosts that are namespaces of this machine, each with its address, name and memory, on a wire that can be cut."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

import gsplit
from gsplit.waiting import until

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
PORT = "29411"
"""Of the store: each world has a network of its own."""
SPACES = ("net", "mount", "uts", "ipc", "pid")
ROOT = os.geteuid() == 0
AS_ROOT = () if ROOT else ("--user", "--map-root-user")
UP_S = 20.0


@functools.cache
def why_none() -> str | None:
    """Why there can be no such hosts here; None where there can."""
    for program in ("unshare", "nsenter", "ip", "mount", "c++"):
        if shutil.which(program) is None:
            return f"no program {program}, which hosts in namespaces are made with"
    spaces = [f"--{space}" for space in SPACES]
    try_it = "ip tuntap add dev eth0 mode tap && mount -t tmpfs tmpfs /tmp"
    tried = subprocess.run(
        ["unshare", *AS_ROOT, *spaces, "--fork", "sh", "-c", try_it], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"namespaces with a network card are not allowed: {' '.join(tried.stderr.split())}"
    return None


@functools.cache
def _wire() -> Path:
    """The program between hosts, compiled once a session."""
    program = Path(tempfile.mkdtemp(prefix="gsplit-wire-")) / "wire"
    subprocess.run(["c++", "-std=c++17", "-O1", "-o", str(program), str(HERE / "wire.cpp")], check=True)
    return program


class Host:
    """One of them. ``number``: from 1."""

    def __init__(self, number: int, name: str, names: Path, kept: Sequence[Path]) -> None:
        self.number, self.name, self.address = number, name, f"10.77.0.{number}"
        self._channel, theirs = socket.socketpair()
        spaces = [f"--{space}" for space in SPACES]
        about = [str(theirs.fileno()), str(number), name, str(names), *map(str, kept)]
        self._unshare = subprocess.Popen(
            [
                *("unshare", *AS_ROOT, *spaces, "--fork", "--kill-child", "--mount-proc"),
                *(sys.executable, "-S", str(HERE / "host_init.py"), *about),
            ],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._channel.settimeout(UP_S)
        word, (self.tap,), *_ = socket.recv_fds(self._channel, 2, 1)
        assert word == b"up"
        (self.first,) = children_of(self._unshare.pid)
        """Process 1 of the host, as this machine counts."""
        self.inside = Path(f"/proc/{self.first}/root")
        """Its files."""

    def start(self, command: Sequence[str], environ: Mapping[str, str], out: IO[str]) -> Started:
        """A process of this host, which prints into a file."""
        spaces = [f"--{space}" for space in SPACES]
        user = () if ROOT else ("--user", "--preserve-credentials")
        return Started(
            ["nsenter", "--target", str(self.first), *user, *spaces, f"--wd={os.getcwd()}", "--", *command],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )

    def processes(self) -> list[int]:
        """Processes of this host beside the first, as this machine counts."""
        space = os.readlink(f"/proc/{self.first}/ns/pid")
        found = [int(each) for each in os.listdir("/proc") if each.isdigit() and int(each) != self.first]
        return [pid for pid in found if _space_of(pid) == space]

    def kill(self) -> None:
        """Kill them, and leave the host as it is."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it has ended with one before
                os.kill(pid, signal.SIGKILL)

    def left(self) -> list[str]:
        """What is there that nobody should leave: processes, files in memory, sockets."""
        unix = Path(f"/proc/{self.first}/net/unix").read_text().splitlines()[1:]
        return [
            *(f"process {pid}: {command_of(pid)}" for pid in self.processes()),
            *(f"socket {line}" for line in unix if "gsplit" in line),
            *(f"file {path}" for path in (self.inside / "dev/shm").iterdir()),
            *(f"file {path}" for path in (self.inside / "tmp").glob("*gsplit*")),
        ]

    def sent_bytes(self) -> int:
        """Bytes that have left this host by its network card, as the kernel counts them."""
        return self._counted(8)

    def sent_frames(self) -> int:
        """Frames that have."""
        return self._counted(9)

    def _counted(self, column: int) -> int:
        lines = Path(f"/proc/{self.first}/net/dev").read_text().splitlines()
        (card,) = (line.partition(":")[2].split() for line in lines if line.split(":")[0].strip() == "eth0")
        return int(card[column])

    def resize_shared_memory(self, size: str) -> None:
        """Give /dev/shm another size."""
        user = () if ROOT else ("--user", "--preserve-credentials")
        remount = ("mount", "-o", f"remount,size={size}", "/dev/shm")
        subprocess.run(["nsenter", "--target", str(self.first), *user, "--mount", *remount], check=True)

    def end(self) -> None:
        """End all of this host at once, as a loss of power does."""
        self._unshare.kill()
        self._unshare.wait()
        self._channel.close()


class Started(subprocess.Popen[bytes]):
    """A process of a host; ``pid`` is of what waits for it."""

    @property
    def own_pid(self) -> int:
        """Its number, as this machine counts."""
        begun = until(lambda: children_of(self.pid), UP_S, 0.01)
        assert begun, "it has not begun"
        return begun[0]

    def signal_it(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.own_pid, number)

    def end(self) -> None:
        """Kill it."""
        if self.poll() is None:
            for pid in children_of(self.pid):
                os.kill(pid, signal.SIGKILL)
            self.kill()
        self.wait()


class Hosts:
    """Some hosts named host1, host2, ... on one wire; to be closed.

    Args:
        number: of hosts.
        folder: that all of them see, as on a common disk; also where their names are written.
        kept: other folders that all of them see.
        delay_us: of the wire, one way.
        mbit_per_s: of the wire, for each host; 0 for as fast as it goes.
        names: lines of /etc/hosts of each host; None for all of them.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        delay_us: int = 0,
        mbit_per_s: int = 0,
        names: Mapping[int, str] | None = None,
        kept: Sequence[Path] = (),
    ) -> None:
        self.hosts: list[Host] = []
        known = "".join(f"10.77.0.{each}\thost{each}\n" for each in range(1, number + 1))
        seen = (folder, *kept, REPOSITORY, Path(sys.prefix), Path(gsplit.__file__).parent)
        try:
            for each in range(1, number + 1):
                file = folder / f"names-of-host{each}"
                file.write_text("127.0.0.1\tlocalhost\n" + (names or {}).get(each, known))
                self.hosts.append(Host(each, f"host{each}", file, seen))
            taps = [host.tap for host in self.hosts]
            self._wire = subprocess.Popen(
                [str(_wire()), str(delay_us), str(mbit_per_s), *map(str, taps)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
                pass_fds=taps,
            )
        finally:
            for host in self.hosts:
                os.close(host.tap)

    def __getitem__(self, at: int) -> Host:
        return self.hosts[at]

    def __len__(self) -> int:
        return len(self.hosts)

    def cut(self, host: Host) -> None:
        """Cut the wire of a host."""
        self._say("cut", host)

    def heal(self, host: Host) -> None:
        """Mend it."""
        self._say("heal", host)

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left all hosts."""
        return sum(host.sent_bytes() for host in self.hosts)

    @property
    def wire_s(self) -> float:
        """Seconds of a core that the wire has taken, from those that hosts compute on."""
        return sum(psutil.Process(self._wire.pid).cpu_times()[:2])

    def _say(self, word: str, host: Host) -> None:
        assert self._wire.stdin
        assert self._wire.stdout
        print(word, host.number, file=self._wire.stdin)
        assert self._wire.stdout.readline() == f"{word}\n"

    def close(self) -> None:
        """End all hosts."""
        self._wire.communicate()
        for host in self.hosts:
            host.end()


def place_of(hosts: Hosts, rank: int, of_host: Sequence[Sequence[int]]) -> dict[str, str]:
    """What torchrun tells a trainer.

    Args:
        hosts: that all are on.
        rank: of the trainer.
        of_host: ranks of each host.
    """
    at = next(at for at, ranks in enumerate(of_host) if rank in ranks)
    numbers = {
        **{"RANK": rank, "WORLD_SIZE": sum(map(len, of_host)), "GROUP_RANK": at},
        **{"LOCAL_RANK": rank - of_host[at][0], "LOCAL_WORLD_SIZE": len(of_host[at])},
    }
    told = {name: str(value) for name, value in numbers.items()}
    return told | {"MASTER_ADDR": hosts[0].address, "MASTER_PORT": PORT}


def children_of(pid: int) -> list[int]:
    """The children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200]
    except OSError:
        return "gone"


def _space_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None
