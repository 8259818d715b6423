"""Discovery of a node's drivers by their sockets in the kubelet's ``plugins_registry`` folder.

The folder is listed once a second, like in a kubelet's own loop, which needs no system-specific notification library.
Several instances of a driver may be registered at the same time (rolling updates, KEP-4381).
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.kubelet_plugin.client import PluginClient, PluginInfo
from allotment.kubelet_plugin.encoding import HEALTH_VERSIONS, HealthVersion
from allotment.kubelet_plugin.messages import KubeletPlugin
from allotment.kubelet_plugin.registration import RegistrationFailed, register

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
#: Delay before a failed registration is retried; it doubles after each failure, as in kubelets.
_RETRY_SECONDS: Final = 0.5
_MAX_RETRY_SECONDS: Final = 122.0

#: Called with the driver's connected instance when it changes, or with None if no instance is connected.
OnChange = Callable[[str, KubeletPlugin | None], None]


class _SocketFile(NamedTuple):
    """A socket in a directory listing. A new file with the same name is a different socket."""

    name: str
    inode: int
    modified: int


class PluginRegistry:
    """The plugins that are registered in a folder, while :meth:`run` runs."""

    def __init__(
        self, folder: Path, clock: Clock, *, on_change: OnChange = lambda driver, plugin: None,
        health_versions: Sequence[HealthVersion] = HEALTH_VERSIONS,
    ) -> None:  # fmt: skip
        self.folder = folder
        self._clock = clock
        self._on_change = on_change
        self._health_versions = health_versions
        self._instances: dict[str, list[PluginClient]] = {}
        self._connected: dict[str, PluginClient] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def find(self, driver: str) -> KubeletPlugin | None:
        """Return the connected instance of the driver that registered last, else the last registered one, else None."""
        instances = self._instances.get(driver, ())
        return self._connected.get(driver) or (instances[-1] if instances else None)

    def connected(self, driver: str) -> KubeletPlugin | None:
        """Return the instance that :meth:`find` returns, if it is connected."""
        return self._connected.get(driver)

    def drivers(self) -> tuple[str, ...]:
        """Return the names of the drivers with at least one registered instance, connected or not."""
        return tuple(sorted(self._instances))

    async def run(self) -> None:
        """Watch the folder until cancelled, then close all connections."""
        sockets: dict[_SocketFile, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    present = _list_sockets(self.folder)
                    # Removed sockets first: an old and a new instance may have the same name.
                    removed = [sockets.pop(file) for file in sockets.keys() - present]
                    for task in removed:
                        task.cancel()
                    if removed:
                        await asyncio.wait(removed)
                    for file in sorted(present - sockets.keys(), key=lambda s: s.modified):
                        sockets[file] = group.create_task(self._register(self.folder / file.name))
                    await self._clock.sleep(_POLL_SECONDS)
        finally:
            if self._closing:
                await asyncio.wait(self._closing)

    async def _register(self, socket: Path) -> None:
        """Register the plugin behind a socket, with retries, and remove it when cancelled."""
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
        instance = PluginClient(info, health_versions=self._health_versions)
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
        """Call ``on_change`` if the connected instance is a different one."""
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
    """Return the sockets in a folder, except hidden ones; none if the folder does not exist."""
    sockets = []
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
                # mtime, not ctime: ctime changes with owner and mode.
                sockets.append(_SocketFile(entry.name, status.st_ino, status.st_mtime_ns))
    return frozenset(sockets)
