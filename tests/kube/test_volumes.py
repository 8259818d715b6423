"""Claims, volumes and the pods that use them: a lab decides as kube-controller-manager and kube-scheduler do.

The same objects are created on both; afterwards, the phases and annotations of claims and volumes, their events, and
the conditions of the pods are the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allotment.apiserver.http_messages import Request, Response
from allotment.lab.control_plane import Plane, running
from allotment.lab.settings import Settings
from allotment.model.features import Features
from allotment.model.trees import Tree
from bench.real_kube import ApiServer

pytestmark = pytest.mark.every_release

Send = Callable[[str, str, Tree | None], Awaitable[Tree]]
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"
_PODS = "/api/v1/namespaces/default/pods"
_STORAGE = "/apis/storage.k8s.io/v1"
_DRIVER = "csi.example.com"
_ZONE = "topology.kubernetes.io/zone"
#: The only file system path that kube-controller-manager deletes; it does not exist.
_TEMPORARY = "/tmp/allotment-tests-no-such-folder/volume"
#: Seconds until both have the same state.
_SECONDS = 60.0


def claim(name: str, size: str = "1Gi", *, storage_class: str | None = "", **spec: Any) -> tuple[str, Tree]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return _CLAIMS, {"metadata": {"name": name}, "spec": spec}


def _on(name: str) -> Tree:
    rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}


def volume(name: str, size: str = "1Gi", *, on: str = "", labels: Tree | None = None, **spec: Any) -> tuple[str, Tree]:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **spec}
    if not {"nfs", "local", "csi"} & set(spec):
        spec.setdefault("hostPath", {"path": "/srv"})
    if on:
        spec["nodeAffinity"] = _on(on)
    return _VOLUMES, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def storage_class(name: str, provisioner: str, mode: str = "Immediate", **more: Any) -> tuple[str, Tree]:
    tree = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return f"{_STORAGE}/storageclasses", tree


def pod(name: str, *claims: str, **spec: Any) -> tuple[str, Tree]:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return _PODS, {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [*volumes, *spec.pop("volumes", ())], **spec},
    }


def _node(name: str, zone: str) -> tuple[str, Tree]:
    labels = {"kubernetes.io/hostname": name, _ZONE: zone}
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": resources}}


def _csi_node(name: str) -> tuple[str, Tree]:
    driver = {"name": _DRIVER, "nodeID": name, "allocatable": {"count": 1}}
    return f"{_STORAGE}/csinodes", {"metadata": {"name": name}, "spec": {"drivers": [driver]}}


def _csi_volume(name: str) -> tuple[str, Tree]:
    return volume(name, storageClassName=name, csi={"driver": _DRIVER, "volumeHandle": name})


CSI = (
    _csi_node("one"), _csi_node("two"),
    (f"{_STORAGE}/csidrivers", {"metadata": {"name": "full.example.com"}, "spec": {"storageCapacity": True}}),
)  # fmt: skip
CLASSES = (
    storage_class("full", "full.example.com", "WaitForFirstConsumer"),
    storage_class("external", "example.com/disks"),
    storage_class("in-tree", "kubernetes.io/no-provisioner"),
    storage_class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    storage_class("local-two", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    storage_class(
        "far", "example.com/disks", "WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": _ZONE, "values": ["south"]}]}],
    ),
)  # fmt: skip
#: Claims and volumes of the same class, which need not exist, match each other only.
VOLUMES = (
    volume("smaller", "2Gi"), volume("larger", "3Gi"), volume("named", storageClassName="manual"),
    volume("reserved", storageClassName="for-me", claimRef={"namespace": "default", "name": "for-me"}),
    volume("small", "1Mi", storageClassName="odd"), volume("block", storageClassName="odd", volumeMode="Block"),
    volume("once", storageClassName="odd"), volume("disk-two", on="two", storageClassName="local-two"),
    volume("in-south", storageClassName="zoned", labels={_ZONE: "south"}),
    volume("on-three", storageClassName="away", on="three"),
    _csi_volume("csi-1"), _csi_volume("csi-2"),
    volume("for-one", storageClassName="single", accessModes=["ReadWriteOncePod"]),
)  # fmt: skip
CLAIMS = (
    claim("sized", "2Gi"), claim("by-name", storage_class="manual", volumeName="named"),
    claim("for-me", storage_class="for-me"), claim("nothing", "999Gi"), claim("unserved", storage_class="missing"),
    claim("ordered", storage_class="external"), claim("unprovisioned", storage_class="in-tree"),
    claim("too-large", storage_class="odd", volumeName="small"), claim("no-class", volumeName="once"),
    claim("files", storage_class="odd", volumeName="block"),
    claim("many", storage_class="odd", volumeName="once", accessModes=["ReadWriteMany"]),
    claim("waits", storage_class="local"), claim("distant", storage_class="far"),
    claim("on-two", storage_class="local-two"), claim("zoned", storage_class="zoned"),
    claim("away", storage_class="away"), claim("full", storage_class="full"),
    claim("csi-1", storage_class="csi-1"), claim("csi-2", storage_class="csi-2"),
    claim("single", storage_class="single", accessModes=["ReadWriteOncePod"]),
)  # fmt: skip
PODS = (
    pod("no-claim", "absent"), pod("unbound", "nothing"), pod("waiting", "waits"), pod("far", "distant"),
    pod("placed", "on-two"), pod("zonal", "zoned"), pod("elsewhere", "away"),
    pod("no-space", "full"), pod("too-many", "csi-1", "csi-2"),
    pod("scratch", volumes=[
        {"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": claim("", storage_class="missing")[1]["spec"]}}}
    ]),
)  # fmt: skip
_POLICIES: dict[str, Tree] = {
    "kept": {"persistentVolumeReclaimPolicy": "Retain"},
    "removed": {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": _TEMPORARY}},
    "not-removable": {"persistentVolumeReclaimPolicy": "Delete"},
    "remote": {"persistentVolumeReclaimPolicy": "Delete", "nfs": {"server": "s", "path": "/p"}},
    "not-recyclable": {"persistentVolumeReclaimPolicy": "Recycle", "on": "one", "local": {"path": "/p"}},
    "lost": {},
}
#: Volumes whose claims are deleted, but for one which is itself deleted.
RECLAIMED = {name: volume(name, storageClassName=name, **spec) for name, spec in _POLICIES.items()}
#: Requests that are refused once the claims are bound: methods, paths and bodies.
REFUSED = (
    ("POST", *volume("everywhere", local={"path": "/p"})),
    ("POST", *volume("root", hostPath={"path": "/"}, persistentVolumeReclaimPolicy="Recycle")),
    ("PATCH", f"{_VOLUMES}/on-three", {"spec": {"nodeAffinity": _on("four")}}),
    ("PATCH", f"{_CLAIMS}/sized", {"spec": {"resources": {"requests": {"storage": "9Gi"}}}}),
    ("PATCH", f"{_CLAIMS}/csi-1", {"spec": {"resources": {"requests": {"storage": "9Gi"}}}}),
)


async def scenario(send: Send) -> None:
    """Create the objects, and delete those that are reclaimed."""
    volumes = (*VOLUMES, *RECLAIMED.values())
    for path, tree in (_node("one", "east"), _node("two", "west"), *CSI, *CLASSES, *volumes):
        await send("POST", path, tree)
    for name in ("one", "two"):  # they have no kubelet that reports that they are ready
        await send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}})
    await until(lambda: _phases(send, _VOLUMES), {tree["metadata"]["name"]: "Available" for _, tree in volumes})
    for path, tree in (*CLAIMS, *(claim(name, storage_class=name) for name in RECLAIMED)):
        await send("POST", path, tree)
    bound = ("sized", "by-name", "for-me", "zoned", "away", "single", "csi-1", "csi-2", *RECLAIMED)
    await until(lambda: _phases(send, _CLAIMS), dict.fromkeys(bound, "Bound"))
    await send("POST", *claim("taken", storage_class="manual", volumeName="named"))
    for path, tree in (*PODS, pod("first", "single")):
        await send("POST", path, tree)
    await until(lambda: _nodes(send), {"first": True, "placed": True})
    await send("POST", *pod("second", "single"))
    for name in RECLAIMED:
        if name == "lost":
            await send("DELETE", f"{_VOLUMES}/{name}", None)
            await send("PATCH", f"{_VOLUMES}/{name}", {"metadata": {"finalizers": None}})
        else:
            await send("DELETE", f"{_CLAIMS}/{name}", None)


async def _phases(send: Send, path: str) -> dict[str, str]:
    return {tree["metadata"]["name"]: tree["status"].get("phase") for tree in (await send("GET", path, None))["items"]}


async def _nodes(send: Send) -> dict[str, bool]:
    pods = (await send("GET", _PODS, None))["items"]
    return {tree["metadata"]["name"]: bool(tree["spec"].get("nodeName")) for tree in pods}


async def until(read: Callable[[], Awaitable[dict[str, Any]]], expected: dict[str, Any]) -> None:
    """Wait until the state contains what is expected."""
    found: dict[str, Any] = {}
    for _ in range(int(_SECONDS / 0.1)):
        found = await read()
        if expected.items() <= found.items():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"expected {expected}, found {found}")


async def outcome(send: Send) -> dict[str, Any]:
    """The state of claims, volumes and pods, and the events of claims and volumes, by name."""
    found: dict[str, Any] = {"refused": [(await send(*request))["message"] for request in REFUSED]}
    for path in (_CLAIMS, _VOLUMES):
        for tree in (await send("GET", path, None))["items"]:
            about, spec, status = tree["metadata"], tree["spec"], tree["status"]
            found[f"{path.rpartition('/')[2]}/{about['name']}"] = (
                status.get("phase"), spec.get("volumeName"), sorted((about.get("annotations") or {}).items()),
                sorted(about.get("finalizers") or ()), (spec.get("claimRef") or {}).get("name"), status.get("message"),
                status.get("capacity"),
                [(each["type"], each["status"], each["reason"]) for each in status.get("conditions") or ()],
            )  # fmt: skip
    for tree in (await send("GET", _PODS, None))["items"]:
        conditions = tree["status"].get("conditions") or ()
        texts = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
        # A lab states its own findings first.
        name, node = tree["metadata"]["name"], tree["spec"].get("nodeName")
        node = "any" if node and name == "first" else node  # it fits on each of them: schedulers choose at random
        found[f"pods/{name}"] = (node, [t.splitlines()[-1:] for t in texts])
    for tree in (await send("GET", "/api/v1/namespaces/default/events", None))["items"]:
        kind, name = tree["involvedObject"]["kind"], tree["involvedObject"]["name"]
        # kube-controller-manager reports the pods of a claim when it next looks at it, which is perhaps too late.
        if kind.startswith("PersistentVolume") and tree["reason"] != "WaitForPodScheduled":
            key = f"events of {kind}/{name}"
            found[key] = sorted({*found.get(key, ()), f"{tree['type']} {tree['reason']}: {tree['message']}"})
    return found


@pytest.fixture
def lab_outcome(release: str) -> dict[str, Any]:
    async def in_lab() -> dict[str, Any]:
        without = frozenset({"kubelets", "joining", "node-lifecycle", "volume-provisioner"})
        async with running(Settings(tls=False, features=Features(release), without=without)) as plane:
            send = _to_lab(plane)
            await scenario(send)
            previous: dict[str, Any] = {}
            while previous != (previous := await outcome(send)) or len(previous) < len(CLAIMS):
                await asyncio.sleep(1.0)
            return previous

    return asyncio.run(in_lab())


def _accepted(code: int, answer: Tree, request: tuple[str, str, Tree | None]) -> Tree:
    """The answer, after a check that the request was accepted or is one of those that are refused."""
    assert (code < 300) == (request not in REFUSED), answer
    return dict(answer)


def _to_lab(plane: Plane) -> Send:
    async def send(method: str, path: str, body: Tree | None) -> Tree:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = json.dumps(body).encode() if body is not None else b""
        answer = await plane.api(Request(method, path, "", {"content-type": kind}, content))
        assert isinstance(answer, Response)
        return _accepted(answer.code, json.loads(answer.body), (method, path, body))

    return send


def test_volumes_are_bound_reclaimed_and_scheduled_as_in_kubernetes(
    kube: ApiServer, lab_outcome: dict[str, Any]
) -> None:
    async def send(method: str, path: str, body: Tree | None) -> Tree:
        return _accepted(*await asyncio.to_thread(kube.send_request, method, path, body), (method, path, body))

    async def compare() -> None:
        await scenario(send)
        for _ in range(int(_SECONDS)):
            found = await outcome(send)
            if found == lab_outcome:
                return
            await asyncio.sleep(1.0)
        differences = {
            key: {"lab": lab_outcome.get(key), "kubernetes": found.get(key)}
            for key in sorted({*found, *lab_outcome})
            if found.get(key) != lab_outcome.get(key)
        }
        raise AssertionError(json.dumps(differences, indent=1))

    asyncio.run(compare())
