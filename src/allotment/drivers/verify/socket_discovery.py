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
from allotment.kubelet_plugin.registration import RegistrationFailed, introduced
from allotment.kubelet_plugin.sockets import answers

_FOLDER = "plugins_registry"


class NotFound(Exception):
    """No driver is to be found by the socket; the text says what was looked for."""


class Found(NamedTuple):
    """A driver's sockets. Without ``registration`` nobody introduced the driver: ``info`` has only what is known."""

    registration: Path | None
    info: PluginInfo


async def find(socket: Path) -> Found:
    """The driver behind a socket of either kind. Raises NotFound."""
    if not is_socket(socket):
        what = "is no socket" if socket.exists() else "does not exist"
        others = [path.name for path in _listed(socket.parent) if is_socket(path)]
        there = f"; there is {', '.join(others)}" if others else ""
        raise NotFound(f"{socket} {what}: wanted the driver's *-reg.sock or dra.sock{there}")
    if not os.access(socket, os.W_OK):
        raise NotFound(f"no permission to connect to {socket}: be the user that the driver is, usually root")
    if not answers(socket):
        raise NotFound(f"nobody answers at {socket}: the driver that made it has ended")
    try:
        return Found(socket, await introduced(socket))
    except RegistrationFailed:
        pass  # then it is where the driver is called
    for other in _registrations(socket):
        try:
            info = await introduced(other)
        except RegistrationFailed:
            continue
        if info.endpoint.absolute() == socket.absolute():
            return Found(other, info)
    return Found(None, PluginInfo(socket.absolute().parent.name, socket.absolute(), ()))


def is_socket(path: Path) -> bool:
    """Whether there is a socket of that name."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _registrations(socket: Path) -> Iterator[Path]:
    """The sockets by which a kubelet would find drivers, if the driver's folder is where kubelets have them."""
    for parent in socket.absolute().parents[1:3]:
        folder = parent / _FOLDER
        for path in _listed(folder):
            if is_socket(path) and answers(path):
                yield path


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
