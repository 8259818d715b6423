"""Finds the devices of containers, as programs inside show them: from claims, and the slices that publish them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allotment.cluster.cache import Cache
from allotment.model.resource import Device, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, read_value
from allotment.node.device_view import Seen, devices_of
from allotment.node.pod_claims import requests_of


class Seeing:
    """The view of one cluster."""

    def __init__(self, claims: Cache[ResourceClaim], slices: Cache[ResourceSlice]) -> None:
        self._claims = claims
        self._slices = slices
        self._by_pool = slices.index("pool", lambda item: [(item.value.spec.driver, item.value.spec.pool.name)])

    def devices(self, pod: Tree, container: Tree, prepared: Mapping[str, Tree]) -> tuple[Seen, ...]:
        """What a container sees. ``prepared``: the pod's claims as they were when they were prepared."""
        names = {name for name, _ in requests_of(pod, container)}
        if not names:
            return ()
        trees = {tree["metadata"]["name"]: tree for tree in prepared.values()}
        claims = {name: read_value(trees[name], ResourceClaim) for name in names if name in trees}
        return devices_of(pod, container, claims, dict(self._published(claims)))

    def _published(self, claims: Mapping[str, ResourceClaim]) -> Iterator[tuple[tuple[str, str, str], Device]]:
        """The devices of claims, as slices describe them."""
        wanted = {
            (result.driver, result.pool, result.device)
            for claim in claims.values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        }
        for driver, pool in {key[:2] for key in wanted}:
            for item in self._by_pool[driver, pool]:
                for device in item.value.spec.devices or ():
                    if (driver, pool, device.name) in wanted:
                        yield (driver, pool, device.name), device
