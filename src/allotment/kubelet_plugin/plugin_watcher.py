"""Which drivers a node has: the sockets in a kubelet's ``plugins_registry`` folder, and the connections they lead to.

The folder is polled, once a second with one listing: no dependency for each system's way to be told, and a second is
what a kubelet's own loop takes. Several instances of a driver may be there at a time (rolling updates, KEP-4381).
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.kubelet_plugin.client import PluginClient, PluginInfo
from allotment.kubelet_plugin.messages import KubeletPlugin
from allotment.kubelet_plugin.registration import RegistrationFailed, register

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
#: A registration that failed is tried again after this long, then after twice as long, as in kubelets.
_RETRY_SECONDS: Final = 0.5
_MAX_RETRY_SECONDS: Final = 122.0

#: Told of a driver whenever another instance of it, or none any more, is connected.
OnChange = Callable[[str, KubeletPlugin | None], None]


class _SocketFile(NamedTuple):
    """One socket as a listing shows it: a new one under an old name is another."""

    name: str
    inode: int
    modified: int


class PluginRegistry:
    """The plugins that registered in a folder. :meth:`run` does the work."""

    def __init__(self, folder: Path, clock: Clock, *, on_change: OnChange = lambda driver, plugin: None) -> None:
        self.folder = folder
        self._clock = clock
        self._on_change = on_change
        # In the order of registration.
        self._instances: dict[str, list[PluginClient]] = {}
        self._connected: dict[str, PluginClient] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def find(self, driver: str) -> KubeletPlugin | None:
        """The driver's instance that registered last among the connected ones, else the last one; None: no instance."""
        instances = self._instances.get(driver, ())
        return self._connected.get(driver) or (instances[-1] if instances else None)

    def connected(self, driver: str) -> KubeletPlugin | None:
        """The instance that :meth:`find` has, if it is connected."""
        return self._connected.get(driver)

    def drivers(self) -> tuple[str, ...]:
        """The drivers with at least one registered instance, connected or not."""
        return tuple(sorted(self._instances))

    async def run(self) -> None:
        """Watch the folder until cancelled; all connections are closed then."""
        sockets: dict[_SocketFile, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    there = _list_sockets(self.folder)
                    # First those that went: one name may stand for an old and a new instance.
                    gone = [sockets.pop(seen) for seen in sockets.keys() - there]
                    for task in gone:
                        task.cancel()
                    if gone:
                        await asyncio.wait(gone)
                    for seen in sorted(there - sockets.keys(), key=lambda s: s.modified):
                        sockets[seen] = group.create_task(self._register(self.folder / seen.name))
                    await self._clock.sleep(_POLL_SECONDS)
        finally:
            if self._closing:
                await asyncio.wait(self._closing)

    async def _register(self, socket: Path) -> None:
        """Register what is behind a socket, and keep it until cancelled."""
        added: list[PluginClient] = []

        def add(info: PluginInfo) -> None:
            added.append(self._add(info))

        def remove() -> None:
            self._remove(added.pop())

        wait = _RETRY_SECONDS
        try:
            while not added:
                try:
                    await register(socket, add, remove)
                except RegistrationFailed as reason:
                    log.warning("%s", reason)
                    await self._clock.sleep(wait)
                    wait = min(2 * wait, _MAX_RETRY_SECONDS)
            await asyncio.Event().wait()
        finally:
            for instance in added:
                self._remove(instance)

    def _add(self, info: PluginInfo) -> PluginClient:
        instances = self._instances.setdefault(info.name, [])
        if any(other.info.endpoint == info.endpoint for other in instances):
            raise RegistrationFailed(f"endpoint {info.endpoint} already registered for DRA driver plugin {info.name}")
        instance = PluginClient(info)
        instance.on_connection = lambda: self._update_connected(info.name)
        instances.append(instance)
        return instance

    def _remove(self, instance: PluginClient) -> None:
        instances = self._instances[instance.name]
        instances.remove(instance)
        if not instances:
            del self._instances[instance.name]
        self._update_connected(instance.name)
        closing = asyncio.create_task(instance.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _update_connected(self, driver: str) -> None:
        """Say so if another instance is now the one to use."""
        connected = [instance for instance in self._instances.get(driver, ()) if instance.is_connected]
        usable = connected[-1] if connected else None
        if usable is self._connected.get(driver):
            return
        if usable is None:
            del self._connected[driver]
        else:
            self._connected[driver] = usable
        self._on_change(driver, usable)


def _list_sockets(folder: Path) -> frozenset[_SocketFile]:
    """The sockets of a folder, without hidden ones; no folder has none."""
    found = []
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return frozenset()
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                # Not the time of the last change: that one moves when somebody changes owner or mode.
                found.append(_SocketFile(entry.name, status.st_ino, status.st_mtime_ns))
    return frozenset(found)
