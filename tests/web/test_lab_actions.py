"""The page of a lab applies and deletes objects, and breaks and repairs devices; views follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from allotment.api.cluster import Cluster
from allotment.lab.lab import Lab
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from allotment.web.options import WebOptions
from tests.web.clients import TOKEN
from tests.web.visitors import PageServer, Reply, page_server, wait_for

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: "registry.k8s.io/pause:3.9", resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: one}]
"""


class LabPage(NamedTuple):
    """A lab with its page."""

    lab: Lab
    server: PageServer
    watched: WatchedCluster

    def post(self, path: str, **body: Any) -> Reply:
        return self.server.send(path, TOKEN, body)

    def until(self, holds: Callable[[ClusterView], bool]) -> ClusterView:
        """Wait for a view."""
        return wait_for(self.watched, holds)


@pytest.fixture(scope="module")
def page() -> Iterator[LabPage]:
    with Lab("a=t4-4x-pcie", speed=20) as lab:
        watched = WatchedCluster.of(Cluster.lab(lab), is_lab=True)
        with page_server(watched, WebOptions(token=TOKEN)) as server:
            found = LabPage(lab, server, watched)
            found.until(lambda view: view.connected)
            yield found


def states(view: ClusterView) -> set[str]:
    return {device.state for node in view.free.nodes for device in node.devices}


def test_objects_are_applied_and_deleted(page: LabPage) -> None:
    reply = page.post("/lab/apply", text=CLAIM)
    assert reply.data == {"sentences": ["ResourceClaim one is applied", "Pod user is applied"]}
    view = page.until(lambda view: view.free.count("in-use") == 1)
    assert view.find("Pod", ObjectKey("default", "user")) is not None
    assert page.post("/lab/delete", kind="pod", name="user").data == {"sentences": ["Pod user is deleted"]}
    page.post("/lab/delete", kind="resourceclaim", namespace="default", name="one")
    page.until(lambda view: view.free.count("in-use") == 0 and not view.inputs.of(Pod))


@pytest.mark.parametrize("kind", ["node", "pod"])
def test_a_deletion_without_a_name_does_not_delete_all_objects_of_the_kind(page: LabPage, kind: str) -> None:
    reply = page.post("/lab/delete", kind=kind, name="")
    assert (reply.status, reply.data["detail"]) == (400, "name: expected the name of an object")


def test_a_lab_has_a_history_with_earlier_maps(page: LabPage) -> None:
    page.post("/lab/apply", text=CLAIM.partition("---")[0].replace("one", "history"))
    page.until(lambda view: view.find("ResourceClaim", ObjectKey("default", "history")) is not None)
    revisions = page.server.send("/history", TOKEN).data["revisions"]
    assert len(revisions) > 1
    first = page.server.send(f"/map?at={revisions[0]['revision']}", TOKEN).data
    assert first["cluster"]["revision"] == revisions[0]["revision"]
    page.post("/lab/delete", kind="resourceclaim", name="history")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "manifest.yaml:2:1: invalid YAML"),
        ("", "the manifests contain no objects"),
        (
            "apiVersion: v1\nkind: Nothing\nmetadata: {name: x}\n",
            "manifest.yaml:1:1: the lab does not serve Nothing in 'v1'",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n", "spec.containers: Required value"),
    ],
)
def test_what_a_lab_rejects_is_a_problem(page: LabPage, text: str, words: str) -> None:
    reply = page.post("/lab/apply", text=text)
    assert reply.status in (400, 422)
    assert words in str(reply.data)


def test_a_device_is_unplugged_and_plugged_in_again(page: LabPage) -> None:
    reply = page.post("/lab/fault", action="unplug", target="a/gpu-2")
    assert reply.data == {"sentences": ["gpu-2 of node a is unplugged"]}
    page.until(lambda view: view.free.count() == 3)
    reply = page.post("/lab/fault", action="plug", target="a/gpu-2")
    assert reply.data == {"sentences": ["gpu-2 of node a is plugged in again"]}
    page.until(lambda view: view.free.count() == 4)
    again = page.post("/lab/fault", action="plug", target="a/gpu-2")
    assert (again.status, again.data["detail"]) == (400, "target: gpu-2 of node a has no fault")


def test_a_device_is_tainted_and_untainted(page: LabPage) -> None:
    taint = {"target": "a/gpu-1", "value": "broken=yes:NoSchedule"}
    assert page.post("/lab/fault", action="taint", **taint).data["sentences"]
    page.until(lambda view: view.free.count("tainted") == 1)
    assert page.post("/lab/fault", action="untaint", **taint).data["sentences"]
    page.until(lambda view: view.free.count("tainted") == 0)
    assert page.post("/lab/fault", action="untaint", **taint).status == 400


def test_a_node_is_tainted_and_untainted(page: LabPage) -> None:
    taint = {"target": "a", "value": "dedicated=ml:NoSchedule"}
    assert page.post("/lab/fault", action="taint", **taint).data["sentences"]
    page.until(lambda view: states(view) == {"unschedulable"})
    assert page.post("/lab/fault", action="untaint", **taint).data["sentences"]
    page.until(lambda view: states(view) == {"free"})


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"action": "explode", "target": "a"}, "the body is not a valid request"),
        ({"action": "unplug", "target": "z/gpu-0"}, "device not found: 'z/gpu-0'"),
        ({"action": "taint", "target": "z", "value": "a:NoSchedule"}, "node not found: 'z'"),
        ({"action": "taint", "target": "a", "value": "x"}, "expected KEY[=VALUE]:NoSchedule or :NoExecute, found 'x'"),
    ],
)
def test_what_cannot_be_broken_is_a_problem(page: LabPage, body: dict[str, str], detail: str) -> None:
    reply = page.post("/lab/fault", **body)
    assert (reply.status, detail in reply.data["detail"]) == (400, True)


def test_actions_need_the_token(page: LabPage) -> None:
    reply = page.server.send("/lab/apply", "wrong", {"text": CLAIM})
    assert reply.status == 401
    assert page.watched.view().find("Pod", ObjectKey("default", "user")) is None
