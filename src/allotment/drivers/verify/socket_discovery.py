"""Discovery of a driver by either of its sockets.

A registration socket reports the endpoint. For an endpoint, all registration sockets in the kubelet's folder are
queried for the one that reports it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from allotment.kubelet_plugin.client import PluginInfo
from allotment.kubelet_plugin.registration import RegistrationFailed, get_info
from allotment.kubelet_plugin.sockets import accepts_connections

_FOLDER = "plugins_registry"


class DriverNotFound(Exception):
    """Raised if there is no driver at a socket; the text has the reason."""


class DriverSockets(NamedTuple):
    """A driver's sockets. Without ``registration``, ``info`` contains only what the path shows."""

    registration: Path | None
    info: PluginInfo


async def find_driver(socket: Path) -> DriverSockets:
    """Return the driver behind a socket of either kind. Raises DriverNotFound."""
    if not is_socket(socket):
        problem = "is not a socket" if socket.exists() else "does not exist"
        others = [path.name for path in _list_folder(socket.parent) if is_socket(path)]
        hint = f"; found {', '.join(others)}" if others else ""
        raise DriverNotFound(f"{socket} {problem}: expected the driver's *-reg.sock or dra.sock{hint}")
    if not os.access(socket, os.W_OK):
        raise DriverNotFound(f"no permission to connect to {socket}: run as the driver's user, usually root")
    if not accepts_connections(socket):
        raise DriverNotFound(f"no process is listening on {socket}: the driver has exited")
    try:
        return DriverSockets(socket, await get_info(socket))
    except RegistrationFailed:
        pass  # it is the endpoint
    for other in _registration_sockets(socket):
        try:
            info = await get_info(other)
        except RegistrationFailed:
            continue
        if info.endpoint.absolute() == socket.absolute():
            return DriverSockets(other, info)
    return DriverSockets(None, PluginInfo(socket.absolute().parent.name, socket.absolute(), ()))


def is_socket(path: Path) -> bool:
    """Whether the path is a socket."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _registration_sockets(socket: Path) -> Iterator[Path]:
    """Yield the registration sockets in the kubelet's folder of the driver's endpoint."""
    for parent in socket.absolute().parents[1:3]:
        folder = parent / _FOLDER
        for path in _list_folder(folder):
            if is_socket(path) and accepts_connections(path):
                yield path


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
