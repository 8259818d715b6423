"""The devices that are kept current by changes are those of the same cluster that is read as a whole."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.objects.inputs import ClusterState, Inputs
from allotment.explanation.node_eligibility import eligibility_nodes, unschedulable_nodes
from allotment.model.core import Node, NodeSpec, Taint
from allotment.model.meta import Object, ObjectMeta
from allotment.model.node_selectors import NodeSelector, NodeSelectorTerm
from allotment.model.resource import (
    Device,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.tools.free import FreeReport, free
from allotment.watched.devices import DeviceMemory
from tests.unit.exporter.clusters import FEATURES, claim, fleet

_NUMBERS = count(1)


def identified(value: Object) -> Object:
    """The object as an API server returns it."""
    return replace(value, metadata=replace(value.metadata, uid=f"uid-{next(_NUMBERS)}"))


MACHINES = [identified(value) for value in fleet("a=t4-4x-pcie", "b=dgx-a100-40gb/dynamic-mig", "c=t4-4x-pcie")]
NODES = [value for value in MACHINES if isinstance(value, Node)]
SHARED = identified(
    ResourceSlice(
        metadata=ObjectMeta(name="network"),
        spec=ResourceSliceSpec(
            driver="net.example.com",
            pool=ResourcePool(name="network", generation=1, resource_slice_count=1),
            node_selector=NodeSelector(node_selector_terms=(NodeSelectorTerm(),)),
            devices=(Device(name="port-0"), Device(name="port-1")),
        ),
    )
)
RULE = DeviceTaintRule(
    metadata=ObjectMeta(name="r"),
    spec=DeviceTaintRuleSpec(
        device_selector=DeviceTaintSelector(pool="a"), taint=DeviceTaint(key="k", value="v", effect="NoSchedule")
    ),
)


def variants(value: Object) -> list[Object | None]:
    """The states of an object."""
    if isinstance(value, Node):
        cordoned = replace(value, spec=NodeSpec(unschedulable=True))
        tainted = replace(value, spec=NodeSpec(taints=(Taint(key="k", effect="NoSchedule"),)))
        return [None, value, cordoned, tainted]
    if isinstance(value, ResourceSlice):
        fewer = replace(value, spec=replace(value.spec, devices=tuple(value.spec.devices or ())[1:]))
        return [None, value, fewer]
    return [None, value]


CLAIMS: dict[str, list[Object | None]] = {
    "x": [None, claim("x"), claim("x", "gpu-0"), claim("x", "gpu-0", users=["p"]), claim("x", "gpu-1", pool="c")],
    "y": [None, claim("y", "port-0", pool="network", driver="net.example.com"), claim("y", "gpu-7", pool="b")],
}
CHOICES: list[list[Object | None]] = [*(variants(value) for value in (*MACHINES, SHARED, RULE)), *CLAIMS.values()]


def read_as_a_whole(objects: list[Object]) -> tuple[FreeReport, tuple[str, ...]]:
    state = ClusterState.of(Inputs(FEATURES, tuple(objects)))
    closed = unschedulable_nodes(eligibility_nodes(state.nodes, state.slices))
    return free(state.inventory(), state.claims, closed), state.gone


def by_node(report: FreeReport) -> dict[str, object]:
    """Nodes and devices in any order, which follows that of the changes.

    Without the texts of problems: until Kubernetes 1.36, the slices that an incomplete pool of another node already has
    are counted on every node, and the engine does not count them again there while the pool stays incomplete.
    """
    return {
        node.node: replace(
            node,
            devices=tuple(sorted(node.devices, key=lambda device: (device.pool, device.device))),
            problems=tuple(replace(problem, text="") for problem in node.problems),
        )
        for node in report.nodes
    }


def _choice(number: int) -> st.SearchStrategy[tuple[int, Object | None]]:
    choices: list[tuple[int, Object | None]] = [(number, value) for value in CHOICES[number]]
    return st.sampled_from(choices)


@given(st.lists(st.lists(st.integers(0, len(CHOICES) - 1).flatmap(_choice), max_size=6), max_size=8))
def test_changes_lead_to_the_report_of_the_whole_cluster(steps: list[list[tuple[int, Object | None]]]) -> None:
    memory, present = DeviceMemory(FEATURES), dict[int, Object]()
    before: dict[str, object] = {}
    for step in steps:
        for number, value in step:
            old = present.pop(number, None)
            if value is not None:
                present[number] = value
            if old is not value:
                memory.change(old, value)
        known, nodes = memory.changes()
        whole, gone = read_as_a_whole(list(present.values()))
        after = by_node(known.report)
        assert after == by_node(whole)
        assert set(known.gone) == set(gone)
        assert set(known.report.unpublished) == set(whole.unpublished)
        different = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        assert nodes is None or different <= nodes
        before = after
