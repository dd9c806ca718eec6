"""Packets that are dropped between two processes, where this process may do so without harm to others."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

PRIVATE = "HERDLESS_CHAOS_PRIVATE_NETWORK"
"""Set in a process that has a network of its own."""


def is_private() -> bool:
    """Whether this process has a network of its own, whose packets it may drop."""
    return bool(os.environ.get(PRIVATE))


def can_be_private() -> bool:
    """Whether this machine lets this user have such a network, with `unshare` and `iptables`."""
    try:
        return subprocess.run([*_ALONE, "sh", "-c", f"{_BEGIN} && iptables -S"], capture_output=True).returncode == 0
    except OSError:
        return False


def become_private(module: str, arguments: list[str]) -> NoReturn:
    """Become the same program in a network of its own."""
    command = f'{_BEGIN} && exec "$@"'
    os.environ[PRIVATE] = "1"
    os.execvp(_ALONE[0], [*_ALONE, "sh", "-c", command, "sh", sys.executable, "-m", module, *arguments])


def drop(*, to_port: int | None = None, from_port: int | None = None) -> None:
    """Drop all packets to that port, or from it, of the address at which relays listen.

    At another address somebody else may have the same port: the test itself, when it looks at a process.
    """
    side, port = ("d", to_port) if to_port is not None else ("s", from_port)
    place = [f"-{side}", "127.0.0.1", f"--{side}port", str(port)]
    subprocess.run(["iptables", "-A", "INPUT", "-p", "tcp", *place, "-j", "DROP"], check=True)


def let_pass() -> None:
    """Drop nothing more."""
    subprocess.run(["iptables", "-F", "INPUT"], check=True)


_ALONE = ("unshare", "--net", "--map-root-user")
_BEGIN = "ip link set lo up"
