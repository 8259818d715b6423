"""Unix sockets of plugins: their names, and who may have one.

A name outlives the process that served under it, so a socket in a folder says nothing until somebody answers. One that
nobody answers at is cleared away; one that somebody serves is never taken from him.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

#: ``sun_path`` of Linux holds 108 bytes, the last one a zero.
MAX_PATH_BYTES: Final = 107

#: Leftovers of others are let be at first: a socket that is bound but does not listen yet looks just like one.
_MIN_AGE_SECONDS: Final = 60.0

_UID: Final = r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})"


class SocketError(Exception):
    """A plugin cannot have the socket it wants; the text says which, why, and what to do."""


class SocketPaths(NamedTuple):
    """Where a driver serves, and where it tells its kubelet so."""

    endpoint: Path
    registration: Path


def socket_paths(driver: str, *, plugins_dir: Path, registry_dir: Path, pod_uid: str = "") -> SocketPaths:
    """The usual paths; with a pod's uid those of one instance among several, as rolling updates have them (KEP-4381).

    >>> folders = {"plugins_dir": Path("/plugins"), "registry_dir": Path("/plugins_registry")}
    >>> for path in socket_paths("gpu.example.com", **folders, pod_uid="7"):
    ...     print(path)
    /plugins/gpu.example.com/dra-7.sock
    /plugins_registry/gpu.example.com-7-reg.sock

    Raises SocketUnusable where the kernel has no room for one of them.
    """
    instance = f"-{pod_uid}" if pod_uid else ""
    paths = SocketPaths(plugins_dir / driver / f"dra{instance}.sock", registry_dir / f"{driver}{instance}-reg.sock")
    for path in paths:
        check_length(path)
    return paths


def check_length(path: Path) -> None:
    """Raises SocketUnusable if no socket can have that path."""
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise SocketError(
            f"socket path {path} has {length} bytes, {MAX_PATH_BYTES} is what the kernel takes: use a shorter folder"
        )


def accepts_connections(path: Path) -> bool:
    """Does somebody accept connections there?"""
    with socket.socket(socket.AF_UNIX) as probe:
        # Not blocking: a queue that is full belongs to somebody, too.
        probe.setblocking(False)
        return probe.connect_ex(os.fsencode(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def remove_stale(path: Path) -> None:
    """Remove a socket that a crash left. Raises SocketUnusable if it is in use, or no socket at all."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(f"{path} is in the way and is no socket: remove it if it is not needed")
    if accepts_connections(path):
        raise SocketError(
            f"{path} is served by another process: end it first, or give each its pod's uid (rolling updates)"
        )
    path.unlink(missing_ok=True)


def remove_leftovers(driver: str, paths: SocketPaths) -> None:
    """Remove what earlier pods' instances of the driver left when they were killed: nobody else ever would."""
    name = re.escape(driver)
    for folder, pattern in (
        (paths.endpoint.parent, rf"dra-{_UID}\.sock" if paths.endpoint.parent.name == driver else None),
        (paths.registration.parent, rf"{name}-{_UID}-reg\.sock"),
    ):
        for entry in os.scandir(folder) if pattern else ():
            path = Path(entry.path)
            if not re.fullmatch(pattern or "", entry.name) or path in paths:
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                settled = time.time() - found.st_mtime > _MIN_AGE_SECONDS
                if stat.S_ISSOCK(found.st_mode) and settled and not accepts_connections(path):
                    path.unlink()
            except OSError:
                # Another instance was faster, or it is not ours to remove: a kubelet passes over it either way.
                continue


def bind(path: Path, listen: Callable[[Path], None]) -> None:
    """Have ``listen`` bind ``path``, which nobody serves, and accept connections there at once.

    Raises SocketUnusable, OSError.
    """
    check_length(path)
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    remove_stale(path)
    # For its owner's eyes only, from the first moment: whoever can connect can have devices prepared.
    mask = os.umask(0o177)
    try:
        listen(path)
    finally:
        os.umask(mask)
