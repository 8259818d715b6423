"""Visitors without the right to list devices learn nothing about those of others."""

from __future__ import annotations

from allotment.api.cluster import Cluster
from allotment.model.resource import ResourceClaim
from allotment.screens.header import encoded
from allotment.screens.objects import objects
from allotment.screens.visibility import HIDDEN, VisitorRights, visible_to
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView

SNAPSHOT = """\
apiVersion: v1
kind: Node
metadata: {name: zebra}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: okapi, namespace: team-b}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: zebra, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [zebra]}]}]}
"""
DEVICES = frozenset({"ResourceSlice", "DeviceClass", "Node"})


def seen(kinds: frozenset[str]) -> ClusterView:
    view = WatchedCluster.of_snapshot(Cluster.snapshot(SNAPSHOT)).view()
    return visible_to(view, VisitorRights(frozenset({"team-a"}), kinds))


def test_allocations_of_others_are_hidden_from_those_who_may_not_list_devices() -> None:
    view = seen(frozenset())
    assert not [value for value in view.inputs.cluster if isinstance(value, ResourceClaim)]
    assert b"zebra" not in repr(view.inputs.cluster).encode() + encoded(objects(view, ""))


def test_those_who_may_list_devices_see_that_they_are_in_use() -> None:
    claims = [value for value in seen(DEVICES).inputs.cluster if isinstance(value, ResourceClaim)]
    assert [claim.key.namespace for claim in claims] == [HIDDEN]
    assert claims[0].status.allocation is not None
