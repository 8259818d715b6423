"""A lab without machines of its own, on which a test sets up a cluster from plain objects.

Objects come as manifests and snapshots have them: nodes without a status, claims that are allocated already, users of
claims that are named only. What a live cluster needs beside them (a ready node, the pods that hold the claims) is
made, as kubelets, drivers and users would.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from allotment.apiserver.exchange import Request, Response, Streaming
from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, EVENTS, NAMESPACES, NODES, PODS
from allotment.lab import naming
from allotment.lab.plane import Plane, running
from allotment.lab.settings import RELEASE, Settings
from allotment.model.features import Features
from allotment.node.kubelet import SIMULATED

Tree = dict[str, Any]

_HEADERS = {"content-type": "application/json", "accept": "application/json"}
_NAMESPACE = re.compile("/namespaces/([^/]+)/")
#: Kinds without a namespace, of those that are posted here.
_UNBOUND = frozenset({"Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule"})
_AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "110"}
_PATIENCE = 10.0
#: Infrastructure first, what asks for it last, so that nothing is decided on half a cluster.
_ORDER = (
    "Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaimTemplate", "ResourceClaim"
)  # fmt: skip


class Stage:
    """A running control plane and what tests do with it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.client: Client = plane.client()

    def resource(self, tree: Tree) -> Resource:
        """What kind of object this is."""
        return naming.by_type(self.plane.kinds(), str(tree.get("apiVersion")), str(tree.get("kind")))

    async def create(self, tree: Tree) -> Tree:
        """One object as its author would create it; its namespace is made first if it is not there."""
        resource = self.resource(tree)
        namespace = (tree["metadata"].get("namespace") or "default") if resource.namespaced else ""
        if namespace:
            await self.have(NAMESPACES, {"metadata": {"name": namespace}})
        return await self.client.create(resource, tree, namespace)

    async def have(self, resource: Resource, tree: Tree) -> Tree:
        """An object that may be there already."""
        try:
            return await self.client.create(resource, tree, tree["metadata"].get("namespace", ""))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self.client.get(resource, tree["metadata"]["name"], tree["metadata"].get("namespace", ""))

    async def post(self, tree: Tree, *, strict: bool = True) -> tuple[int, str]:
        """What kubectl does to create an object: code and message of the answer. Its namespace is made if need be."""
        path = _collection(tree)
        namespace = _NAMESPACE.search(path)
        if namespace:
            await self.have(NAMESPACES, {"metadata": {"name": namespace[1]}})
        answer = await self.plane.api(
            Request(
                "POST", path, f"fieldValidation={'Strict' if strict else 'Ignore'}", _HEADERS, json.dumps(tree).encode()
            )
        )
        assert isinstance(answer, Response)
        text = answer.body.decode()
        if answer.code < 400:
            return answer.code, ""
        return answer.code, json.loads(text)["message"] if text.startswith("{") else text

    async def text(self, path: str, query: str = "") -> str:
        """The answer to a GET, whole."""
        answer = await self.plane.api(Request("GET", path, query))
        if isinstance(answer, Response):
            return answer.body.decode()
        assert isinstance(answer, Streaming)
        return b"".join([piece async for piece in answer.pieces]).decode()

    async def set_up(self, trees: Iterable[Tree], *, kubelets: bool = False) -> None:
        """A cluster, its users and what they ask for; with ``kubelets`` its nodes are simulated, and pods run."""
        given = sorted(trees, key=_turn)
        nodes = {tree["metadata"]["name"] for tree in given if tree["kind"] == "Node"}
        wanted = dict.fromkeys(name for tree in given for name in _nodes_of(tree) if name not in nodes)
        for name in wanted:
            await self.node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, kubelets=kubelets)
        for tree in given:
            if tree["kind"] == "Node":
                await self.node(tree, kubelets=kubelets)
            elif tree["kind"] == "ResourceClaim" and (tree.get("status") or {}).get("allocation"):
                await self.allocated(tree)
            else:
                await self.create(tree)

    async def node(self, tree: Tree, *, kubelets: bool = False) -> None:
        """A node as it is when its kubelet has said that it is ready."""
        meta = tree["metadata"]
        labels = {"kubernetes.io/hostname": meta["name"], **(meta.get("labels") or {})}
        annotations = {**(meta.get("annotations") or {}), **({SIMULATED: "true"} if kubelets else {})}
        status = {
            "allocatable": _AMOUNTS, "capacity": _AMOUNTS, **(tree.get("status") or {}),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }  # fmt: skip
        await self.client.create(
            NODES, {**tree, "metadata": {**meta, "labels": labels, "annotations": annotations}, "status": status}
        )
        # Admission holds every new node back until somebody has seen it ready.
        taints = (tree.get("spec") or {}).get("taints")
        await self.client.patch(NODES, meta["name"], {"spec": {"taints": taints}})

    async def allocated(self, tree: Tree) -> None:
        """A claim that others use, and these others: pods that run where its devices are."""
        made = await self.create({key: value for key, value in tree.items() if key != "status"})
        meta, status = made["metadata"], dict(tree["status"])
        users = []
        for user in status.get("reservedFor") or ():
            pod = await self.user(user["name"], meta["namespace"], meta["name"], next(_nodes_of(tree), ""))
            users.append({**user, "uid": pod["metadata"]["uid"]})
        await self.client.update(CLAIMS, {**made, "status": {**status, "reservedFor": users}}, subresource="status")

    async def user(self, name: str, namespace: str, claim: str, node: str) -> Tree:
        """A pod that runs with a claim."""
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
        spec = {
            "containers": [container], "resourceClaims": [{"name": "c", "resourceClaimName": claim}], "nodeName": node
        }  # fmt: skip
        return await self.have(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async def pod(self, name: str, namespace: str) -> Tree:
        """A pod as it is now."""
        return await self.client.get(PODS, name, namespace)

    async def until(self, found: Callable[[Tree], Any], name: str, namespace: str) -> Tree:
        """A pod as soon as something is true of it."""
        pod: Tree = {}
        try:
            async with asyncio.timeout(_PATIENCE):
                while not found(pod := await self.pod(name, namespace)):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"did not come true: {pod.get('status')}") from None
        return pod

    async def pods(self, namespace: str, found: Callable[[list[Tree]], Any]) -> list[Tree]:
        """The pods of a namespace by name, as soon as something is true of them."""
        pods: list[Tree] = []
        try:
            async with asyncio.timeout(_PATIENCE):
                while not found(pods := list((await self.client.list(PODS, namespace)).items)):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            told = [f"{pod['metadata']['name']}: {pod.get('status')}" for pod in pods]
            raise AssertionError("\n".join(["did not come true:", *told])) from None
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    async def running(self, namespace: str, count: int) -> list[Tree]:
        """So many pods of a namespace, and all of them run or have ended well."""
        return await self.pods(namespace, lambda pods: len(pods) == count and all(map(runs, pods)))

    async def claims(self, pod: Tree) -> list[Tree]:
        """The claims of a pod, in the order of its entries; the one for its extended resources comes last."""
        status = pod.get("status") or {}
        made = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
        entries = pod["spec"].get("resourceClaims") or ()
        names = [entry.get("resourceClaimName") or made.get(entry["name"]) for entry in entries]
        names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
        return [await self.client.get(CLAIMS, name, pod["metadata"]["namespace"]) for name in names if name]

    async def devices(self, pod: Tree) -> list[str]:
        """The devices of a pod's claims, in the order of their requests."""
        claims = await self.claims(pod)
        return [r["device"] for claim in claims for r in claim["status"]["allocation"]["devices"]["results"]]

    async def told(self, name: str, namespace: str, words: str = "") -> str:
        """The last FailedScheduling event of a pod, as describe shows it, as soon as it has these words."""
        messages: Sequence[str] = ()
        try:
            async with asyncio.timeout(_PATIENCE):
                while not messages or words not in messages[-1]:
                    await asyncio.sleep(0.005)
                    messages = await self.warnings(name, namespace)
        except TimeoutError:
            pod = await self.pod(name, namespace)
            raise AssertionError(f"was not told {words!r} but {messages}; {pod.get('status')}") from None
        return messages[-1]

    async def warnings(self, name: str, namespace: str) -> Sequence[str]:
        """The messages of a pod's FailedScheduling events, oldest first."""
        fields = f"involvedObject.name={name},reason=FailedScheduling"
        items = (await self.client.list(EVENTS, namespace, fields=fields)).items
        return [item["message"] for item in sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))]


@asynccontextmanager
async def stage(
    features: Features | None = None, *, fleet: Sequence[str] = (), speed: float = 20.0
) -> AsyncIterator[Stage]:
    """A fresh one, gone at the end; nothing in these tests waits for anything but the programs' patience."""
    settings = Settings(fleet=tuple(fleet), tls=False, features=features or Features(RELEASE), speed=speed)
    async with running(settings) as plane:
        yield Stage(plane)


def condition(pod: Tree) -> Tree:
    """What the pod says of its scheduling."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})


def runs(pod: Tree) -> bool:
    """Whether a pod's containers run, or have done their work."""
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def waits(pod: Tree) -> bool:
    """Whether a pod has been told that there is no place for it."""
    return condition(pod).get("status") == "False"


def _collection(tree: Tree) -> str:
    """Where objects of this type are posted, by Kubernetes' rules for plurals; whether there is such a type or not."""
    group, _, version = str(tree.get("apiVersion", "v1")).rpartition("/")
    kind = str(tree["kind"])
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if kind in _UNBOUND:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{tree['metadata'].get('namespace') or 'default'}/{plural}"


def _turn(tree: Tree) -> int:
    return _ORDER.index(tree["kind"]) if tree["kind"] in _ORDER else len(_ORDER)


def _nodes_of(tree: Tree) -> Iterator[str]:
    """The nodes that an object speaks of by name."""
    spec = tree.get("spec") or {}
    if tree["kind"] == "ResourceSlice":
        if spec.get("nodeName"):
            yield spec["nodeName"]
        for device in spec.get("devices") or ():
            if device.get("nodeName"):
                yield device["nodeName"]
    allocation = (tree.get("status") or {}).get("allocation") or {}
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            yield from match["values"]
