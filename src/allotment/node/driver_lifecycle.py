"""Follows the nodes' drivers as they register and unregister: health streams, and deletion of their ResourceSlices.

The slices of an out-of-process driver are deleted 30 seconds after it unregistered, as a kubelet does: devices that
no driver can prepare must not be allocated. If it returns earlier, its slices stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
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
from allotment.node.kubelet_features import DEFAULT_FEATURES
from allotment.node.plugins import Plugins

#: Seconds between a driver's unregistration and the deletion of its slices.
GONE_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 5.0

log = logging.getLogger(__name__)
_Key = tuple[str, str]


class Drivers:
    """Tracks the drivers of all nodes. ``changed(node, driver)`` is called when one registers or unregisters.

    ``health_services``: the versions of the health service that the kubelets call.
    """

    def __init__(
        self, client: Client, plugins: Plugins, slices: Cache[ResourceSlice],
        healths: DeviceHealths, changed: Callable[[str, str], None],
        health_services: Collection[str] = DEFAULT_FEATURES.health_services,
    ) -> None:  # fmt: skip
        # Out-of-process drivers run in real time, however fast the lab's clock runs.
        self._clock = Clock()
        self._client = client
        self._plugins = plugins
        self._healths = healths
        self._notify = changed
        self._health_services = health_services
        self._by_driver = slices.index("node and driver", lambda i: [(i.value.spec.node_name, i.value.spec.driver)])
        self._listening: dict[_Key, asyncio.Task[None]] = {}
        self._going: dict[_Key, Timer] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Track drivers until cancelled."""
        ends: list[Callable[[], None]] = []
        registries: dict[str, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group

                def watch(node: str, folder: Path) -> None:
                    # The gRPC modules are only needed for out-of-process drivers.
                    from allotment.kubelet_plugin.encoding import HEALTH_VERSIONS
                    from allotment.kubelet_plugin.plugin_watcher import PluginRegistry

                    if (known := registries.pop(node, None)) is not None:
                        known.cancel()
                    registry = PluginRegistry(
                        folder, self._clock, on_change=partial(self._plugins.changed, node),
                        health_versions=[each for each in HEALTH_VERSIONS if each.service in self._health_services],
                    )  # fmt: skip
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
        while failed and key not in self._listening:  # else the driver is back, and republishes its slices
            failed = False
            for item in tuple(self._by_driver[key]):
                try:
                    await self._client.delete(SLICES, item.name, uid=item.uid)
                except (StatusError, Unreachable) as error:
                    if isinstance(error, StatusError) and error.code in (404, 409):
                        continue
                    log.info("cannot delete ResourceSlice %s of unregistered driver %s: %s", item.name, key[1], error)
                    failed = True
            if failed:
                await self._clock.sleep(_AGAIN_SECONDS)
