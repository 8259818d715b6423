"""A view is a value of one revision: what is derived from it is computed once, and nodes that changed are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import msgspec
import pytest

from allotment.api.cluster import Cluster
from allotment.api.doctor import doctor
from allotment.api.explain import explain
from allotment.api.free import free
from allotment.errors import InputError
from allotment.model.meta import ObjectKey
from allotment.watched.cluster import WatchedCluster, view_of
from allotment.watched.view import ClusterView, NodeChanges

SNAPSHOT = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml, annotations: {"example.com/x": "y"}}
spec:
  containers: [{name: c, image: i, workingDir: /w}]
  resourceClaims: [{name: gpu, resourceClaimName: missing}]
---
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {podCIDR: 10.0.0.0/24}
---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: ml}
involvedObject: {kind: Pod, namespace: ml, name: p}
reason: FailedScheduling
"""


def fleet_view() -> ClusterView:
    return WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie:2")).view()


def test_a_fleet_a_snapshot_and_a_release_have_one_view(tmp_path: Path) -> None:
    fleet = fleet_view()
    assert (fleet.place, fleet.name, fleet.free.count()) == ("fleet", "t4-4x-pcie:2", 8)
    snapshot = WatchedCluster.of_snapshot(Cluster.snapshot(SNAPSHOT)).view()
    assert (snapshot.place, snapshot.name, snapshot.is_read_only) == ("snapshot", "snapshot", True)
    file = tmp_path / "saved.yaml"
    file.write_text(SNAPSHOT)
    assert WatchedCluster.of_snapshot(Cluster.snapshot(file)).view().name == "saved.yaml"
    nothing = WatchedCluster.of_snapshot(Cluster(kube="1.36")).view()
    assert (nothing.place, nothing.name, nothing.free.count()) == ("none", "Kubernetes 1.36", 0)


def test_a_snapshot_has_complete_objects_and_events() -> None:
    view = view_of(Cluster.snapshot(SNAPSHOT))
    tree = view.tree("Pod", ObjectKey("ml", "p"))
    assert tree is not None
    assert tree["spec"]["containers"][0]["workingDir"] == "/w"
    assert [event["reason"] for event in view.events] == ["FailedScheduling"]
    assert view.tree("Pod", ObjectKey("ml", "other")) is None


def test_described_hardware_has_objects_with_the_known_fields() -> None:
    tree = fleet_view().tree("Node", ObjectKey("", "t4-4x-pcie-1"))
    assert tree is not None
    assert tree["kind"] == "Node"


def test_the_functions_of_the_api_answer_from_memory(tmp_path: Path) -> None:
    given = Cluster.snapshot(SNAPSHOT)
    view = view_of(given)
    assert explain(cluster=view.cluster).answers == explain(cluster=given).answers
    (gap,) = explain(cluster=view.cluster).notes  # which a page must state
    assert "contains no ResourceSlices or ResourceClaims" in gap
    assert free(view.cluster) == view.free == msgspec.structs.replace(free(given), notes=(gap,))
    assert doctor(view.cluster).findings == doctor(given).findings
    view.cluster.save(tmp_path / "saved.yaml")
    assert view_of(Cluster.snapshot(tmp_path / "saved.yaml")).inputs.cluster == view.inputs.cluster


def test_a_running_cluster_in_memory_is_not_read_again() -> None:
    origin = view_of(Cluster.snapshot(SNAPSHOT)).origin._replace(place="cluster", connection=("--context", "c"))
    view = replace(view_of(Cluster.snapshot(SNAPSHOT)), origin=origin, place="cluster")
    answer = explain(cluster=view.cluster, name="pod/p", namespace="ml").answers[0]
    assert (answer.name, answer.fits) == ("ml/p", False)
    assert "--context c" in explain(cluster=view.cluster).answers[0].next
    assert view.cluster.to_dict()["kind"] == "List"


def test_a_value_is_computed_once_for_all_threads() -> None:
    view, made, start = fleet_view(), list[int](), Barrier(8)
    found: list[object] = []

    def make() -> object:
        made.append(1)
        return object()

    def request() -> None:
        start.wait()
        found.append(view.cached("key", make))

    threads = [Thread(target=request) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len({id(value) for value in found}) == 1


def test_a_value_that_could_not_be_computed_is_computed_again() -> None:
    view = fleet_view()
    with pytest.raises(InputError):
        view.cached("key", lambda: (_ for _ in ()).throw(InputError("not now")))
    assert view.cached("key", lambda: 1) == 1


def test_values_may_depend_on_each_other() -> None:
    view = fleet_view()
    assert view.cached("b", lambda: view.cached("a", lambda: 1) + 1) == 2


def changed(*changes: NodeChanges, since: int) -> frozenset[str] | None:
    return replace(fleet_view(), revision=changes[-1].revision, changes=changes).changed_nodes(since)


def test_the_nodes_that_changed_since_a_revision_are_known() -> None:
    a, b = NodeChanges(4, frozenset({"a"})), NodeChanges(5, frozenset({"b", ""}))
    assert changed(a, b, since=5) == frozenset()
    assert changed(a, b, since=4) == frozenset({"b", ""})
    assert changed(a, b, since=3) == frozenset({"a", "b", ""})


def test_every_node_may_have_changed_if_the_changes_are_not_known() -> None:
    a, everything, c = NodeChanges(4, frozenset({"a"})), NodeChanges(5, None), NodeChanges(6, frozenset({"c"}))
    assert changed(a, everything, c, since=3) is None
    assert changed(a, everything, c, since=5) == frozenset({"c"})
    assert changed(a, since=2) is None  # the changes of revision 3 are not kept
    assert changed(a, since=7) is None  # a revision of another process
