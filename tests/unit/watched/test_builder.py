"""The views of a cluster that changes."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.api.clusters.source import ClusterOrigin
from allotment.model.core import Pod, PodSchedulingGroup
from allotment.model.meta import Object
from allotment.watched.builder import ClusterIdentity, ConnectionState, ViewBuilder
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import fleet, pod
from tests.unit.watched.written_objects import FACTS, changes, created

POD, CLAIM = pod("train", "gpu-1", node="t4-4x-pcie-1")


def builder() -> ViewBuilder:
    return ViewBuilder(ClusterIdentity(ClusterOrigin(), "test", "cluster"))


def view_of(*values: Object, among: ViewBuilder) -> ClusterView:
    view = among.next(created(*values), ConnectionState(FACTS))
    assert view is not None
    return view


def test_groups_of_pods_are_missed_only_if_a_pod_names_one() -> None:
    cluster = builder()
    assert "podgroups" not in view_of(*fleet("t4-4x-pcie"), POD, among=cluster).unread
    grouped = replace(POD, spec=replace(POD.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))
    assert view_of(grouped, among=cluster).unread["podgroups"] == "not served"
    assert "podgroups" not in view_of(POD, among=cluster).unread


def test_objects_can_be_looked_up_in_each_view() -> None:
    cluster = builder()
    first = view_of(*fleet("t4-4x-pcie"), POD, CLAIM, among=cluster)
    second = cluster.next(changes([(POD.key, Pod, None)]), ConnectionState(FACTS))
    assert second is not None
    assert [view.find("Pod", POD.key) is not None for view in (first, second)] == [True, False]
    assert [view.tree("Pod", POD.key) is not None for view in (first, second)] == [True, False]
    assert [len(list(view.of_kind(Pod))) for view in (first, second)] == [1, 0]
    assert dict(second.objects) == {(type(value).__name__, value.key): value for value in second.inputs.cluster}


def test_the_node_of_a_pod_that_starts_has_changed() -> None:
    """Its devices have been prepared then, which the map shows."""
    cluster = builder()
    waiting = replace(POD, status=replace(POD.status, phase="Pending"))
    first = view_of(*fleet("t4-4x-pcie"), waiting, CLAIM, among=cluster)
    later = view_of(POD, among=cluster)
    assert later.changed_nodes(first.revision) == frozenset({"t4-4x-pcie-1"})
