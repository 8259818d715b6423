"""The registry of DRA drivers by node.

A driver is a :class:`~allotment.kubelet_plugin.messages.KubeletPlugin`: an object in this process (the lab's own
fleet), or a process that registered through a node's plugins folder, as with a real kubelet. ResourceSlices that a
user wrote by hand for a simulated node belong to no driver; their devices can be used all the same
(:class:`Permissive`), so that a manifest can be tried before its driver exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, KubeletPlugin, PrepareResult

#: Callback: a driver of a node registered (its plugin) or unregistered (None).
Changed = Callable[[str, str, KubeletPlugin | None], None]


class Permissive:
    """The driver of devices that have none: every claim is prepared successfully without any action."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Report success for every claim."""
        return {claim.uid: PrepareResult() for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Report success for every claim."""
        return {claim.uid: "" for claim in claims}

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """None: health is not reported."""
        return None


class Registrations(Protocol):
    """Drivers that registered in a folder (:class:`allotment.kubelet_plugin.plugin_watcher.PluginRegistry`)."""

    def find(self, driver: str) -> KubeletPlugin | None:
        """The plugin to call for a driver; None if it is not registered."""
        ...


class Plugins:
    """Drivers by node and name. ``permissive``: whether :class:`Permissive` replaces drivers that never registered."""

    def __init__(self, *, permissive: bool = True) -> None:
        self._permissive = permissive
        self._inside: dict[tuple[str, str], KubeletPlugin] = {}
        self._folders: dict[str, Path] = {}
        self._registrations: dict[str, Registrations] = {}
        self._seen: set[tuple[str, str]] = set()
        self._stand_ins: dict[str, Permissive] = {}
        self._callbacks: list[Changed] = []
        self._watchers: list[Callable[[str, Path], None]] = []

    def add(self, node: str, plugin: KubeletPlugin) -> None:
        """Add an in-process driver to a node, replacing one of the same name."""
        self._inside[node, plugin.name] = plugin
        self.changed(node, plugin.name, plugin)

    def remove(self, node: str, driver: str) -> None:
        """Remove an in-process driver from a node, if it exists."""
        if self._inside.pop((node, driver), None) is not None:
            self.changed(node, driver, self.find(node, driver))

    def forget(self, node: str, driver: str) -> None:
        """Remove a driver of a deleted node, and do not expect it any more."""
        self.remove(node, driver)
        self._seen.discard((node, driver))

    def expect(self, node: str, driver: str) -> None:
        """Expect a driver on a node: until it registers, it is not replaced by :class:`Permissive`."""
        self._seen.add((node, driver))

    def find(self, node: str, driver: str) -> KubeletPlugin | None:
        """The plugin to call for a driver's claims on a node; None while it is not registered."""
        plugin = self._inside.get((node, driver))
        if plugin is None and node in self._registrations:
            plugin = self._registrations[node].find(driver)
        if plugin is None and self._permissive and (node, driver) not in self._seen:
            plugin = self._stand_ins.get(driver)
            if plugin is None:
                plugin = self._stand_ins[driver] = Permissive(driver)
        return plugin

    def inside(self) -> Mapping[tuple[str, str], KubeletPlugin]:
        """The drivers of this process, by node and name."""
        return self._inside

    def is_inside(self, node: str, driver: str) -> bool:
        """Whether a driver of this process serves the node under that name."""
        return (node, driver) in self._inside

    # --- out-of-process drivers -----------------------------------------------------------------------------------

    def watch_folder(self, node: str, folder: Path) -> None:
        """Let out-of-process drivers register for a node in this folder, like a kubelet's ``plugins_registry``."""
        if self._folders.get(node) != folder:
            self._folders[node] = folder
            for watch in tuple(self._watchers):
                watch(node, folder)

    @property
    def folders(self) -> Mapping[str, Path]:
        """The registration folders by node."""
        return self._folders

    def on_folder(self, watch: Callable[[str, Path], None]) -> Callable[[], None]:
        """Call ``watch`` for existing and new folders; returns a function that unsubscribes."""
        self._watchers.append(watch)
        for node, folder in tuple(self._folders.items()):
            watch(node, folder)
        return lambda: self._watchers.remove(watch)

    def registered(self, node: str, registrations: Registrations) -> None:
        """Set the registrations of a node's out-of-process drivers."""
        self._registrations[node] = registrations

    # --- notifications --------------------------------------------------------------------------------------------

    def changed(self, node: str, driver: str, plugin: KubeletPlugin | None) -> None:
        """Notify the callbacks that a driver registered or unregistered."""
        if plugin is not None:
            self._seen.add((node, driver))
        for callback in tuple(self._callbacks):
            callback(node, driver, plugin)

    def on_change(self, callback: Changed) -> Callable[[], None]:
        """Call ``callback`` when a driver registers or unregisters; returns a function that unsubscribes."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)
