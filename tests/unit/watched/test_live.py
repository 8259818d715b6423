"""A running cluster is watched: each change makes a view, outages and missing permissions are stated."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from weakref import ref

import pytest
from msgspec.structs import replace

from allotment.api.explain import explain
from allotment.api.free import free
from allotment.api.objects.inputs import ClusterState
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, EVENTS, NODES, PODS
from allotment.errors import InputError
from allotment.model.core import Namespace, Node, Pod
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.screens.pending_pods import pending_pods
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from tests.unit.cluster import idle
from tests.unit.exporter.clusters import claim, fleet, pod, template
from tests.unit.watched.watched_server import WatchedServer, watching

MACHINES = fleet("a=t4-4x-pcie", "b=t4-4x-pcie")


async def view_with(watched: WatchedCluster, holds: Callable[[ClusterView], bool]) -> ClusterView:
    """Wait for a view."""
    async with asyncio.timeout(600):
        view = watched.view()
        while not holds(view):
            view = await watched.changed(view.revision)
        return view


def is_read(view: ClusterView) -> bool:
    return view.connected


def test_the_first_view_has_all_objects_and_devices() -> None:
    async def scenario() -> None:
        async with watching(WatchedServer(*MACHINES, claim("c", "gpu-1", users=["p"]))) as watched:
            assert (watched.view().connected, watched.view().error) == (False, "connecting to c")
            view = await view_with(watched, is_read)
            assert (view.error, dict(view.unread), view.inputs.features.kube) == ("", {}, "1.37")
            assert (view.free.count(), view.free.count("in-use")) == (8, 1)
            assert view.find("Node", ObjectKey("", "a")) is not None

    idle.run(scenario())


def test_a_view_answers_as_a_cluster_that_is_read_again() -> None:
    async def scenario() -> None:
        async with watching(WatchedServer(*MACHINES, claim("c", "gpu-1"), template("t"), pod("p", template="t"))) as w:
            view = await view_with(w, is_read)
            assert view.free.to_dict() == free(view.cluster).to_dict()
            assert [answer.name for answer in explain(cluster=view.cluster).answers] == ["ml/p"]

    idle.run(scenario())


def test_a_change_is_a_new_view_that_names_the_changed_nodes() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            first = await view_with(watched, is_read)
            server.add(claim("c", "gpu-1", users=["p"]))
            view = await watched.changed(first.revision)
            assert view.changed_nodes(first.revision) == frozenset({"a"})
            assert (first.free.count("in-use"), view.free.count("in-use")) == (0, 1)
            unchanged = {node.node: node for node in first.free.nodes}
            assert [unchanged[node.node] is node for node in view.free.nodes] == [False, True]

    idle.run(scenario())


def test_many_changes_at_once_make_few_views() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            first = await view_with(watched, is_read)
            for number in range(200):
                server.add(pod(f"p{number}"))
            view = await view_with(watched, lambda view: len(view.inputs.of(Pod)) == 200)
            assert view.revision - first.revision <= 3

    idle.run(scenario())


def test_heartbeats_of_nodes_are_no_change() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            first = await view_with(watched, is_read)
            tree = server.objects[NODES, "", "a"]
            beat = {"type": "Ready", "lastHeartbeatTime": "2026-06-01T00:00:10Z"}
            server.put(NODES, {**tree, "status": {**(tree.get("status") or {}), "conditions": [beat]}})
            await asyncio.sleep(1)
            assert watched.view() is first

    idle.run(scenario())


def test_a_cluster_that_goes_away_keeps_its_last_view_and_heals() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            await view_with(watched, is_read)
            await asyncio.sleep(3600)
            server.go_down()
            lost = await view_with(watched, lambda view: not view.connected)
            assert lost.free.count() == 8
            assert lost.error == "the cluster cannot be read: it broke off"
            assert lost.seen_at.startswith("2026-06-01T00:00")  # the cluster sent nothing since, not even bookmarks
            await asyncio.sleep(600)
            server.is_down = False
            server.add(claim("c", "gpu-1"))
            healed = await view_with(watched, is_read)
            assert (healed.error, healed.free.count("in-use")) == ("", 1)
            assert healed.seen_at.startswith("2026-06-01T01:1")

    idle.run(scenario())


def test_a_cluster_that_is_away_at_first_is_reached_later() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        server.is_down = True
        async with watching(server) as watched:
            view = await view_with(watched, lambda view: "connection refused" in view.error)
            assert view.error == "the cluster cannot be read: https://127.0.0.1:6443: connection refused"
            assert not view.inputs.of(Node)
            server.is_down = False
            assert (await view_with(watched, is_read)).free.count() == 8

    idle.run(scenario())


def test_a_cluster_that_is_away_is_tried_again_within_seconds() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            await view_with(watched, is_read)
            server.go_down()
            await asyncio.sleep(3600)
            server.is_down = False
            before = asyncio.get_running_loop().time()
            await view_with(watched, is_read)
            assert asyncio.get_running_loop().time() - before <= 5

    idle.run(scenario())


def test_forbidden_kinds_are_named_and_the_others_are_read() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        server.may_list = {CLAIMS: (), EVENTS: ()}
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            assert dict(view.unread) == {"resourceclaims": "forbidden", "events": "forbidden"}
            assert len(view.inputs.of(Node)) == 2
            with pytest.raises(InputError, match="cannot answer without resourceclaims"):
                _ = view.free

    idle.run(scenario())


def test_kinds_that_are_forbidden_elsewhere_are_read_in_the_users_namespace() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES, pod("mine"), replace(pod("other"), metadata=ObjectMeta("other", "", "x")))
        server.may_list = {PODS: ("ml",)}
        async with watching(server, "ml") as watched:
            view = await view_with(watched, is_read)
            assert [value.metadata.name for value in view.inputs.of(Pod)] == ["mine"]
            assert dict(view.unread) == {"pods": "forbidden outside of namespace ml"}
            server.add(pod("second"))
            view = await watched.changed(view.revision)
            assert [value.metadata.name for value in view.inputs.of(Pod)] == ["mine", "second"]

    idle.run(scenario())


def test_a_user_of_one_namespace_gets_the_reasons_of_its_pending_pods() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES, pod("mine"), replace(pod("other"), metadata=ObjectMeta("other", "", "x")))
        server.may_list = dict.fromkeys((PODS, CLAIMS, CLAIM_TEMPLATES), ("ml",))
        async with watching(server, "ml") as watched:
            [group] = pending_pods(await view_with(watched, is_read)).groups
            assert [found.metadata.name for found in group.pods] == ["mine"]
            assert "ResourceClaims of other namespaces could not be read" in group.first.notes[-1]

    idle.run(scenario())


def test_pending_pods_are_not_explained_without_the_claims_of_any_namespace() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES, pod("mine"))
        server.may_list = {CLAIMS: ()}
        async with watching(server, "ml") as watched:
            with pytest.raises(InputError, match="cannot answer without resourceclaims"):
                pending_pods(await view_with(watched, is_read))

    idle.run(scenario())


def test_kinds_that_may_only_be_listed_are_listed_again() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        server.may_not_watch = {PODS}
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            assert dict(view.unread) == {}
            server.add(pod("p"))
            view = await watched.changed(view.revision)
            assert [value.metadata.name for value in view.inputs.of(Pod)] == ["p"]

    idle.run(scenario())


def test_permissions_that_are_granted_later_are_used() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES, claim("c", "gpu-0"))
        server.may_list = {CLAIMS: ()}
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            server.may_list = {}
            view = await view_with(watched, lambda view: not view.unread)
            assert view.free.count("in-use") == 1

    idle.run(scenario())


def test_an_upgrade_while_the_cluster_is_away_changes_the_release() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            await view_with(watched, is_read)
            server.go_down()
            await view_with(watched, lambda view: not view.connected)
            server.is_down, server.version = False, "v1.36.3"
            view = await view_with(watched, is_read)
            assert view.inputs.features.kube == "1.36"
            assert view.free.count() == 8

    idle.run(scenario())


def test_events_about_pods_are_part_of_the_view() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            about = {"kind": "Pod", "namespace": "ml", "name": "p"}
            server.put(EVENTS, {"metadata": {"namespace": "ml", "name": "e"}, "involvedObject": about, "reason": "R"})
            view = await watched.changed(view.revision)
            assert [event["reason"] for event in view.events] == ["R"]

    idle.run(scenario())


def test_a_node_that_disappears_takes_its_devices_along_until_it_returns() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            node = next(value for value in MACHINES if isinstance(value, Node) and value.metadata.name == "a")
            server.take(node)
            gone = await watched.changed(view.revision)
            assert gone.free.count() == 4
            assert "slices of node a are ignored" in gone.free.notes[-1]
            assert gone.changed_nodes(view.revision) == frozenset({"a"})
            server.add(node)
            back = await watched.changed(gone.revision)
            assert back.free.count() == 8
            assert ClusterState.of(back.inputs).gone == ()

    idle.run(scenario())


def test_objects_that_cannot_be_decoded_are_left_out() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES)
        server.put(PODS, {"metadata": {"namespace": "ml", "name": "broken"}, "spec": {"containers": 7}})
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            assert view.inputs.of(Pod) == ()

    idle.run(scenario())


def test_namespaces_are_part_of_the_view() -> None:
    async def scenario() -> None:
        async with watching(WatchedServer(Namespace(metadata=ObjectMeta(name="ml")))) as watched:
            view = await view_with(watched, is_read)
            assert [value.metadata.name for value in view.inputs.of(Namespace)] == ["ml"]

    idle.run(scenario())


def test_old_views_are_freed_without_a_garbage_collection() -> None:
    async def scenario() -> None:
        server = WatchedServer(*MACHINES, template("t"), pod("p", template="t"))
        async with watching(server) as watched:
            view = await view_with(watched, is_read)
            _ = view.free, view.objects, view.state, view.inventory, view.cluster.to_dict()
            old = ref(view)
            gc.disable()
            try:
                server.add(claim("c", "gpu-1"))
                view = await watched.changed(view.revision)
                assert old() is None
            finally:
                gc.enable()

    idle.run(scenario())
