"""Unix sockets of plugins: paths, checks and cleanup.

A socket file outlives its process, so its existence does not mean that a process serves it. Stale sockets are removed;
a socket with a listening process is never touched.
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

#: Linux's ``sun_path`` has 108 bytes, including the terminating zero.
MAX_PATH_BYTES: Final = 107

#: Age at which other instances' stale sockets are removed: one that is bound but does not listen yet looks the same.
_MIN_AGE_SECONDS: Final = 60.0

_UID: Final = r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})"


class SocketError(Exception):
    """Raised if a plugin cannot use a socket path; the text has the path, the reason and the remedy."""


class SocketPaths(NamedTuple):
    """Paths of the sockets for the DRA service and for registration."""

    endpoint: Path
    registration: Path


def socket_paths(driver: str, *, plugins_dir: Path, registry_dir: Path, pod_uid: str = "") -> SocketPaths:
    """Return the default paths; with a pod UID, those of one of several instances, as in rolling updates (KEP-4381).

    >>> folders = {"plugins_dir": Path("/plugins"), "registry_dir": Path("/plugins_registry")}
    >>> for path in socket_paths("gpu.example.com", **folders, pod_uid="7"):
    ...     print(path)
    /plugins/gpu.example.com/dra-7.sock
    /plugins_registry/gpu.example.com-7-reg.sock

    Raises SocketError if a path is too long.
    """
    instance = f"-{pod_uid}" if pod_uid else ""
    paths = SocketPaths(plugins_dir / driver / f"dra{instance}.sock", registry_dir / f"{driver}{instance}-reg.sock")
    for path in paths:
        check_length(path)
    return paths


def check_length(path: Path) -> None:
    """Raise SocketError if the path is too long for a socket."""
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise SocketError(
            f"socket path {path} has {length} bytes; the maximum is {MAX_PATH_BYTES}. Use a shorter directory path"
        )


def accepts_connections(path: Path) -> bool:
    """Whether a process listens at the socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        # Non-blocking: a socket with a full backlog has a listening process, too.
        probe.setblocking(False)
        return probe.connect_ex(os.fsencode(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def remove_stale(path: Path) -> None:
    """Remove a stale socket. Raises SocketError if a process listens at it, or if the file is not a socket."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise SocketError(f"{path} exists and is not a socket: remove it if it is not needed")
    if accepts_connections(path):
        raise SocketError(
            f"{path} is served by another process: stop that process first; "
            "for rolling updates, pass each instance's pod UID"
        )
    path.unlink(missing_ok=True)


def remove_leftovers(driver: str, paths: SocketPaths) -> None:
    """Remove stale sockets of the driver's instances in earlier pods, which no other program removes."""
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
                status = entry.stat(follow_symlinks=False)
                is_old = time.time() - status.st_mtime > _MIN_AGE_SECONDS
                if stat.S_ISSOCK(status.st_mode) and is_old and not accepts_connections(path):
                    path.unlink()
            except OSError:
                # Removed by another instance, or not permitted: kubelets ignore stale sockets anyway.
                continue


def bind(path: Path, listen: Callable[[Path], None]) -> None:
    """Remove a stale socket at ``path`` and have ``listen`` bind the path and accept connections.

    Raises SocketError, OSError.
    """
    check_length(path)
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    remove_stale(path)
    # Accessible by the owner only from the start: a process that can connect can have devices prepared.
    mask = os.umask(0o177)
    try:
        listen(path)
    finally:
        os.umask(mask)
