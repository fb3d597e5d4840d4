"""The first process of a host that is a set of namespaces: makes it one, and stays until its starter has ended.

``host_init.py CHANNEL NUMBER NAME HOSTS_FILE KEPT...``: the descriptor of a socket, by which that of the host's TAP
device is sent; the host's number and name; its /etc/hosts; folders of /tmp that it shares with all others.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys

TAP = 0x0002 | 0x1000
"""IFF_TAP and IFF_NO_PI."""
TUNSETIFF = 0x400454CA
INTERFACE = "eth0"


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def mounts(hosts_file: str, kept: list[str]) -> None:
    """Give the host its own names, shared memory and temporary files."""
    mount("--make-rprivate", "/")
    mount("--bind", hosts_file, "/etc/hosts")
    mount("-t", "tmpfs", "tmpfs", "/dev/shm")
    opened = {os.path.realpath(folder): os.open(folder, os.O_PATH) for folder in kept}
    mount("-t", "tmpfs", "tmpfs", "/tmp")
    for folder, fd in opened.items():
        if folder.startswith("/tmp/"):
            os.makedirs(folder, exist_ok=True)
            subprocess.run(["mount", "-c", "--bind", f"/proc/self/fd/{fd}", folder], check=True, pass_fds=[fd])
        os.close(fd)


def tap(number: int) -> int:
    """The descriptor of this host's network card, which is up."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), TAP))
    commands = (
        f"link set {INTERFACE} address 02:00:00:00:00:{number:02x} mtu 9000 up",
        f"addr add 10.77.0.{number}/24 dev {INTERFACE}",
        "link set lo up",
    )
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
    return fd


def main(channel: str, number: str, name: str, hosts_file: str, *kept: str) -> None:
    socket.sethostname(name)
    mounts(hosts_file, list(kept))
    with socket.socket(fileno=int(channel)) as starter:
        fd = tap(int(number))
        socket.send_fds(starter, [b"up"], [fd])
        os.close(fd)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans leave no zombies
        starter.recv(1)  # nothing comes but the end


if __name__ == "__main__":
    main(*sys.argv[1:])
