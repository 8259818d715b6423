"""From either of a driver's two sockets to the other one.

A registration socket tells where the driver is called. The other way round nobody tells: a kubelet never needs to know.
So the sockets of the folder where a kubelet would look are asked, one after the other, which of them leads back.
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
    """No driver is to be found by the socket; the text says what was looked for."""


class DriverSockets(NamedTuple):
    """A driver's sockets. Without ``registration`` nobody introduced the driver: ``info`` has only what is known."""

    registration: Path | None
    info: PluginInfo


async def find_driver(socket: Path) -> DriverSockets:
    """The driver behind a socket of either kind. Raises NotFound."""
    if not is_socket(socket):
        what = "is no socket" if socket.exists() else "does not exist"
        others = [path.name for path in _list_folder(socket.parent) if is_socket(path)]
        there = f"; there is {', '.join(others)}" if others else ""
        raise DriverNotFound(f"{socket} {what}: wanted the driver's *-reg.sock or dra.sock{there}")
    if not os.access(socket, os.W_OK):
        raise DriverNotFound(f"no permission to connect to {socket}: be the user that the driver is, usually root")
    if not accepts_connections(socket):
        raise DriverNotFound(f"nobody answers at {socket}: the driver that made it has ended")
    try:
        return DriverSockets(socket, await get_info(socket))
    except RegistrationFailed:
        pass  # then it is where the driver is called
    for other in _registration_sockets(socket):
        try:
            info = await get_info(other)
        except RegistrationFailed:
            continue
        if info.endpoint.absolute() == socket.absolute():
            return DriverSockets(other, info)
    return DriverSockets(None, PluginInfo(socket.absolute().parent.name, socket.absolute(), ()))


def is_socket(path: Path) -> bool:
    """Whether there is a socket of that name."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _registration_sockets(socket: Path) -> Iterator[Path]:
    """The sockets by which a kubelet would find drivers, if the driver's folder is where kubelets have them."""
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
