"""Changes to a lab on its page: objects are applied and deleted, devices are broken and repaired."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import msgspec

from allotment.cluster.client import Client, Resource
from allotment.cluster.error_location import locate_error
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import NODES, TAINT_RULES
from allotment.errors import InputError, InvalidManifests
from allotment.lab.drivers import FAULTS
from allotment.model.loading import Document, load_text
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree
from allotment.watched.view import ClusterView
from allotment.web.screen_answers import decoded

#: Does something to the lab at an address; returns what was done, as sentences.
LabAction = Callable[[ClusterTarget, ClusterView, bytes], Awaitable[list[str]]]

_FILE: Final = "manifest.yaml"
_MANAGER: Final = "allotment-web"
#: The GPU of a device: MIG devices and partitions are lost with it.
_GPU: Final = re.compile(r"gpu-\d+")
_EXAMPLE_DRIVER: Final = "gpu.example.com"


class _Apply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


class _Delete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    name: str
    namespace: str = ""


class _Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["unplug", "plug", "taint", "untaint"]
    target: str
    value: str = ""


async def apply(target: ClusterTarget, view: ClusterView, body: bytes) -> list[str]:
    """Apply manifests, as ``kubectl apply --server-side --force-conflicts``. Raises InputError and Unreachable."""
    text = decoded(body, _Apply).text
    loaded = await asyncio.to_thread(load_text, text, _FILE)  # megabytes take seconds
    if loaded.problems:
        raise InvalidManifests(loaded.problems, {_FILE: text}.get)
    if not loaded.documents:
        raise InputError("the manifests contain no objects")
    done = []
    async with HttpClient(target, _MANAGER) as client:
        discovery = await discover(client)
        for document in loaded.documents:
            resource = _resource(discovery, document)
            try:
                done.append(await _applied(client, resource, document, target.namespace))
            except StatusError as error:
                place = locate_error(document, error)
                words = "; ".join(filter(None, (str(error), place.sentence, *place.advice)))
                before = f" ({', '.join(done)})" if done else ""
                raise InputError(f"{place.position}: {document.kind} {document.name}: {words}{before}") from None
    return done


async def _applied(client: Client, resource: Resource, document: Document, default: str) -> str:
    tree: Tree = document.tree
    metadata = tree.get("metadata") or {}
    namespace = (metadata.get("namespace") or default) if resource.namespaced else ""
    if not document.name:
        made = await client.create(resource, tree, namespace)
        return f"{resource.kind} {made['metadata']['name']} is created"
    await client.patch(resource, document.name, tree, namespace, kind="apply", force=True)
    return f"{resource.kind} {document.name} is applied"


def _resource(discovery: Discovery, document: Document) -> Resource:
    served = discovery.by_type(document.api_version, document.kind)
    if served is None:
        text = f"{document.position()}: the lab does not serve {document.kind or 'this'} in {document.api_version!r}"
        raise InputError(text)
    return served.resource


async def delete(target: ClusterTarget, view: ClusterView, body: bytes) -> list[str]:
    """Delete an object. Raises InputError and Unreachable."""
    wanted = decoded(body, _Delete)
    if not wanted.name:  # the address of all objects of the kind
        raise InputError("expected the name of an object", argument="name")
    async with HttpClient(target, _MANAGER) as client:
        served = (await discover(client)).by_word(wanted.kind)
        if served is None:
            raise InputError(f"the lab does not serve {wanted.kind!r}", argument="kind")
        resource = served.resource
        namespace = (wanted.namespace or target.namespace) if resource.namespaced else ""
        try:
            await client.delete(resource, wanted.name, namespace)
        except StatusError as error:
            raise InputError(str(error)) from None
    return [f"{resource.kind} {wanted.name} is deleted"]


async def fault(target: ClusterTarget, view: ClusterView, body: bytes) -> list[str]:
    """Break, repair, taint or untaint a device or node. Raises InputError and Unreachable."""
    wanted = decoded(body, _Fault)
    async with HttpClient(target, _MANAGER) as client:
        try:
            if wanted.action in ("unplug", "plug"):
                return [await _plug(client, view, wanted)]
            if "/" in wanted.target:
                return [await _taint_device(client, view, wanted)]
            return [await _taint_node(client, view, wanted)]
        except StatusError as error:
            raise InputError(str(error)) from None


async def _plug(client: Client, view: ClusterView, wanted: _Fault) -> str:
    """Change the faults in the annotation of a simulated node, from which its driver reads them."""
    slice_, name = _device(view, wanted.target)
    node = slice_.spec.node_name or ""
    tree = view.tree("Node", ObjectKey("", node)) or {}
    faults = _pairs(((tree.get("metadata") or {}).get("annotations") or {}).get(FAULTS) or "")
    gpu = found[0] if (found := _GPU.match(name)) else name
    if wanted.action == "unplug":
        faults[gpu] = "NoExecute" if slice_.spec.driver == _EXAMPLE_DRIVER else "gone"
    elif faults.pop(gpu, None) is None:
        raise InputError(f"{gpu} of node {node} has no fault", argument="target")
    text = ",".join(f"{each}={what}" for each, what in faults.items())
    await client.patch(NODES, node, {"metadata": {"annotations": {FAULTS: text or None}}})
    return f"{gpu} of node {node} is {'unplugged' if wanted.action == 'unplug' else 'plugged in again'}"


def _pairs(text: str) -> dict[str, str]:
    return dict(each.partition("=")[::2] for each in text.split(",") if each)


def _device(view: ClusterView, target: str) -> tuple[ResourceSlice, str]:
    """Return the slice of a device ``POOL/DEVICE``; one that is unplugged is in no slice, but its pool is."""
    pool, _, name = target.rpartition("/")
    slices = [each for each in view.inputs.of(ResourceSlice) if pool in (each.spec.pool.name, each.spec.node_name)]
    for slice_ in slices:
        if any(device.name == name for device in slice_.spec.devices or ()):
            return slice_, name
    if not slices or not name:
        raise InputError(f"device not found: {target!r}", "use POOL/DEVICE", argument="target")
    return slices[0], name


def _taint(text: str) -> Mapping[str, str]:
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in ("NoSchedule", "NoExecute"):
        raise InputError(f"expected KEY[=VALUE]:NoSchedule or :NoExecute, found {text!r}", argument="value")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


async def _taint_device(client: Client, view: ClusterView, wanted: _Fault) -> str:
    """Taint a device by a DeviceTaintRule, whose name follows from device and taint."""
    slice_, device = _device(view, wanted.target)
    selector = {"driver": slice_.spec.driver, "pool": slice_.spec.pool.name, "device": device}
    taint = _taint(wanted.value)
    digest = hashlib.sha256(repr((selector, taint)).encode()).hexdigest()[:12]
    name = f"page-{digest}"
    if wanted.action == "untaint":
        await client.delete(TAINT_RULES, name)
        return f"{wanted.target} is no longer tainted {wanted.value}"
    rule = {
        "apiVersion": TAINT_RULES.api_version,
        "kind": TAINT_RULES.kind,
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    await client.patch(TAINT_RULES, name, rule, kind="apply", force=True)
    return f"{wanted.target} is tainted {wanted.value}"


async def _taint_node(client: Client, view: ClusterView, wanted: _Fault) -> str:
    tree = view.tree("Node", ObjectKey("", wanted.target))
    if tree is None:
        raise InputError(f"node not found: {wanted.target!r}", "use a node, or POOL/DEVICE", argument="target")
    taint = _taint(wanted.value)
    present = (tree.get("spec") or {}).get("taints") or []
    kept = [each for each in present if (each.get("key"), each.get("effect")) != (taint["key"], taint["effect"])]
    if wanted.action == "untaint" and len(kept) == len(present):
        raise InputError(f"node {wanted.target} has no taint {wanted.value}", argument="value")
    taints = [*kept, taint] if wanted.action == "taint" else kept
    await client.patch(NODES, wanted.target, {"spec": {"taints": taints or None}})
    return f"node {wanted.target} is {'tainted' if wanted.action == 'taint' else 'no longer tainted'} {wanted.value}"


#: The actions by address.
ACTIONS: Final[Mapping[str, LabAction]] = {"/lab/apply": apply, "/lab/delete": delete, "/lab/fault": fault}
