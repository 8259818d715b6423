"""The drivers of the nodes as they come and go: who registers in a node's folder, who tells health, whose slices go.

A driver outside that is gone for half a minute has its slices deleted, as a kubelet does: devices that nobody can
prepare must not be given to anybody. Until then it may come back, and nothing is published anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock, Timer
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import SLICES
from allotment.kubelet_plugin.messages import KubeletPlugin
from allotment.model.resource import ResourceSlice
from allotment.node.device_health import DeviceHealths
from allotment.node.plugins import Plugins

#: Seconds that a driver may be gone before its slices are.
GONE_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 5.0

log = logging.getLogger(__name__)
_Key = tuple[str, str]


class Drivers:
    """The drivers of all nodes. ``changed(node, driver)``: tell whoever waits for one."""

    def __init__(
        self, client: Client, plugins: Plugins, slices: Cache[ResourceSlice],
        healths: DeviceHealths, changed: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        # Drivers outside are processes of this machine: they start in its time, however fast the lab's clock runs.
        self._clock = Clock()
        self._client = client
        self._plugins = plugins
        self._healths = healths
        self._notify = changed
        self._by_driver = slices.index("node and driver", lambda i: [(i.value.spec.node_name, i.value.spec.driver)])
        self._listening: dict[_Key, asyncio.Task[None]] = {}
        self._going: dict[_Key, Timer] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Follow them for ever."""
        ends: list[Callable[[], None]] = []
        registries: dict[str, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group

                def watch(node: str, folder: Path) -> None:
                    # Only where drivers are outside is what speaks with them needed.
                    from allotment.kubelet_plugin.plugin_watcher import PluginRegistry

                    if (known := registries.pop(node, None)) is not None:
                        known.cancel()
                    registry = PluginRegistry(folder, self._clock, on_change=partial(self._plugins.changed, node))
                    self._plugins.registered(node, registry)
                    registries[node] = group.create_task(registry.run(), name=f"plugins of {node}")

                ends.append(self._plugins.on_change(self._changed))
                for (node, _), plugin in tuple(self._plugins.inside().items()):
                    self._changed(node, plugin.name, plugin)
                ends.append(self._plugins.on_folder(watch))
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            for end in ends:
                end()
            self._healths.close()
            for timer in self._going.values():
                timer.cancel()

    def _changed(self, node: str, driver: str, plugin: KubeletPlugin | None) -> None:
        key = (node, driver)
        if (listening := self._listening.pop(key, None)) is not None:
            listening.cancel()
        if (going := self._going.pop(key, None)) is not None:
            going.cancel()
        if plugin is not None and self._group is not None:
            self._listening[key] = self._group.create_task(self._healths.follow(node, plugin), name=f"health of {key}")
        elif plugin is None and node in self._plugins.folders:
            self._going[key] = self._clock.later(GONE_SECONDS, partial(self._gone, key))
        self._notify(node, driver)

    def _gone(self, key: _Key) -> None:
        self._going.pop(key, None)
        if self._group is not None and not self._plugins.is_inside(*key):
            self._group.create_task(self._wipe(key), name=f"slices of {key}")

    async def _wipe(self, key: _Key) -> None:
        failed = True
        while failed and key not in self._listening:  # else it is back, and mends what it has lost
            failed = False
            for item in tuple(self._by_driver[key]):
                try:
                    await self._client.delete(SLICES, item.name, uid=item.uid)
                except (StatusError, Unreachable) as error:
                    if isinstance(error, StatusError) and error.code in (404, 409):
                        continue
                    log.info("ResourceSlice %s of unregistered driver %s: %s", item.name, key[1], error)
                    failed = True
            if failed:
                await self._clock.sleep(_AGAIN_SECONDS)
