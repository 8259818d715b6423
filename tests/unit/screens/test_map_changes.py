"""The map of a cluster that is kept current by changes is that of the same cluster that is read as a whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.clusters.source import ClusterOrigin
from allotment.model.core import Node, Pod
from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.screens.device_map import DeviceMap, device_map
from allotment.watched.builder import ClusterIdentity, ConnectionState, ViewBuilder
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import fleet, pod
from tests.unit.watched.written_objects import FACTS, changes

MACHINES = fleet("a100-40gb/dynamic-mig", "t4-4x-pcie:2")
POD, CLAIM = pod("train", "gpu-1", node="t4-4x-pcie-1", owner="StatefulSet/train")


def phase(name: str, node: str = "t4-4x-pcie-1") -> Pod:
    return replace(POD, spec=replace(POD.spec, node_name=node), status=replace(POD.status, phase=name))


def with_admin_access(claim: ResourceClaim) -> ResourceClaim:
    allocation = claim.status.allocation
    assert allocation is not None
    results = tuple(replace(result, admin_access=True) for result in allocation.devices.results)
    devices = replace(allocation.devices, results=results)
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def variants(value: Object) -> list[Object | None]:
    """The states of an object."""
    if isinstance(value, Node):
        labels = {**value.metadata.labels, "topology.kubernetes.io/zone": "z"}
        return [None, value, replace(value, metadata=replace(value.metadata, labels=labels))]
    if isinstance(value, ResourceSlice):
        return [None, value, replace(value, spec=replace(value.spec, devices=tuple(value.spec.devices or ())[:2]))]
    return [value]


CHOICES: list[list[Object | None]] = [
    *map(variants, MACHINES),
    [None, phase("Pending", ""), phase("Pending"), phase("Running"), replace(phase("Running"), metadata=replace(
        POD.metadata, owner_references=()))],
    [None, CLAIM, with_admin_access(CLAIM), replace(CLAIM, status=replace(CLAIM.status, reserved_for=()))],
]  # fmt: skip


def drawn(screen: DeviceMap) -> dict[str, Any]:
    """The nodes of a map without the numbers that depend on their order."""
    found = {}
    for node in screen.nodes:
        devices = [
            (replace(each, kind=0, holders=()), screen.kinds[each.kind], [screen.holders[n] for n in each.holders])
            for each in screen.devices_of(node)
        ]
        found[node.name] = (node.labels, node.unschedulable, node.problems, devices)
    return found


def read_as_a_whole(view: ClusterView) -> ClusterView:
    return ClusterView(view.revision, view.inputs, view.origin, view.name, view.place)


def choice(number: int) -> st.SearchStrategy[tuple[int, Object | None]]:
    return st.tuples(st.just(number), st.sampled_from(CHOICES[number]))


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from(range(len(CHOICES))).flatmap(choice), max_size=3), min_size=1, max_size=6))
def test_changes_lead_to_the_map_of_the_whole_cluster(steps: list[list[tuple[int, Object | None]]]) -> None:
    builder = ViewBuilder(ClusterIdentity(ClusterOrigin(), "test", "cluster"))
    everything = [value for states in CHOICES if (value := states[-1]) is not None]
    view = builder.next(changes([(value.key, type(value), value) for value in everything]), ConnectionState(FACTS))
    assert view is not None
    page = drawn(device_map(view))
    for step in steps:
        changed = []
        for number, value in step:
            named = next(each for each in CHOICES[number] if each is not None)
            changed.append((named.key, type(named), value))
        later = builder.next(changes(changed), ConnectionState(FACTS))
        if later is None:
            continue
        part = device_map(later, since=view.revision)
        view = later
        whole = drawn(device_map(read_as_a_whole(view)))
        assert drawn(device_map(view)) == whole
        # A page that puts the changed nodes in place of the old ones shows the same, but for counts of kinds.
        kept = {name: node for name, node in page.items() if part.since and name not in part.removed}
        page = kept | drawn(part)
        assert without_counts(page) == without_counts(whole)


def without_counts(page: dict[str, Any]) -> dict[str, object]:
    return {
        name: (*rest, [(device, replace(kind, count=0), holders) for device, kind, holders in devices])
        for name, (*rest, devices) in page.items()
    }
