"""Which drivers serve the claims of which node.

A driver is a :class:`~allotment.kubelet_plugin.messages.Plugin`: a call away in this process (the lab's own fleet),
or a process of its own that registered through a node's plugins folder, as with a real kubelet. Slices that a user
wrote by hand for a simulated node belong to no driver at all; their devices are handed out all the same
(:class:`Permissive`), or nobody could try a manifest before there is a driver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, KubeletPlugin, PrepareResult

#: A driver of a node came (its newest plugin) or went (None).
Changed = Callable[[str, str, KubeletPlugin | None], None]


class Permissive:
    """A driver for devices that nobody drives: every claim is prepared, and nothing is done for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Nothing to do for any of them."""
        return {claim.uid: PrepareResult() for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Nothing to undo."""
        return {claim.uid: "" for claim in claims}

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """Nobody knows."""
        return None


class Registrations(Protocol):
    """Drivers that registered in a folder (:class:`allotment.kubelet_plugin.plugin_watcher.PluginRegistry`)."""

    def find(self, driver: str) -> KubeletPlugin | None:
        """The one to call now."""
        ...


class Plugins:
    """Drivers by node and name. ``permissive``: whether drivers that never were there are stood in for."""

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
        """A driver in this process serves a node, in place of the one of its name before it."""
        self._inside[node, plugin.name] = plugin
        self.changed(node, plugin.name, plugin)

    def remove(self, node: str, driver: str) -> None:
        """It serves the node no more; none of that name is no error."""
        if self._inside.pop((node, driver), None) is not None:
            self.changed(node, driver, self.find(node, driver))

    def forget(self, node: str, driver: str) -> None:
        """It serves the node no more, and nobody is to wait for it: the node itself has gone."""
        self.remove(node, driver)
        self._seen.discard((node, driver))

    def expect(self, node: str, driver: str) -> None:
        """A driver will serve the node: until it is there, nobody stands in for it."""
        self._seen.add((node, driver))

    def find(self, node: str, driver: str) -> KubeletPlugin | None:
        """Whom to call for a driver's claims on a node; None while it is not there."""
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

    # --- drivers outside ------------------------------------------------------------------------------------------

    def watch_folder(self, node: str, folder: Path) -> None:
        """Drivers outside register for a node in this folder, as in a kubelet's ``plugins_registry``."""
        if self._folders.get(node) != folder:
            self._folders[node] = folder
            for watch in tuple(self._watchers):
                watch(node, folder)

    @property
    def folders(self) -> Mapping[str, Path]:
        """The folders by node."""
        return self._folders

    def on_folder(self, watch: Callable[[str, Path], None]) -> Callable[[], None]:
        """Be told of folders, first of those that there are; returns the end."""
        self._watchers.append(watch)
        for node, folder in tuple(self._folders.items()):
            watch(node, folder)
        return lambda: self._watchers.remove(watch)

    def registered(self, node: str, registrations: Registrations) -> None:
        """Ask these registrations for the drivers of a node that are not in this process."""
        self._registrations[node] = registrations

    # --- who wants to know ----------------------------------------------------------------------------------------

    def changed(self, node: str, driver: str, plugin: KubeletPlugin | None) -> None:
        """A driver came or went: tell who wants to know."""
        if plugin is not None:
            self._seen.add((node, driver))
        for callback in tuple(self._callbacks):
            callback(node, driver, plugin)

    def on_change(self, callback: Changed) -> Callable[[], None]:
        """Be told of drivers that come and go from now on; returns the end."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)
