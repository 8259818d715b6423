"""The part of a view that a visitor of the page has permission to read.

Devices that claims of other namespaces hold stay in use, or the page would call them free; their claims lose their
names, and everything else that a user wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace as replace_fields
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.api.objects.inputs import Inputs
from allotment.engine.diagnosis.reader import Reader
from allotment.explanation.input import Readers, reads_everything
from allotment.model.meta import Object, ObjectKey, ObjectMeta
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from allotment.model.server_facts import ServerFacts
from allotment.tools.free import DeviceReport, NodeReport
from allotment.watched.keyed_objects import VisibleTrees
from allotment.watched.view import CarriedValues, ClusterView, KnownDevices, NodeValues

#: The namespace of claims without a name; no namespace of a cluster has such a name.
HIDDEN: Final = "(other-namespaces)"
_DENIED: Final = "access denied"
#: The kinds without a namespace that a report on devices depends on.
_OF_DEVICES: Final = frozenset({"Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule"})


class VisitorRights(NamedTuple):
    """``namespaces``: those that the visitor can read, None for all. ``kinds``: the kinds that the visitor can list in
    all namespaces, such as ``Node``, None for all. ``hidden``: namespaces with a kind that is not readable there."""

    namespaces: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    hidden: frozenset[tuple[str, str]] = frozenset()

    @property
    def sees_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.namespaces is None and self.kinds is None

    def sees(self, value: Object) -> bool:
        """Whether the visitor can read an object."""
        return self.sees_key(type(value).__name__, value.key)

    def sees_key(self, kind: str, key: ObjectKey) -> bool:
        """Whether the visitor can read an object of this kind and name."""
        namespace = key.name if kind == "Namespace" else key.namespace
        if self.namespaces is not None and namespace:
            return namespace in self.namespaces and (namespace, kind) not in self.hidden
        return self.kinds is None or kind in self.kinds


def visible_to(view: ClusterView, rights: VisitorRights) -> ClusterView:
    """Return a view with only what a visitor may read. The same rights give the same view of a view."""
    if rights.sees_everything:
        return view
    return view.cached(("visible", rights), lambda: _filtered(view, rights))


def readers_of(view: ClusterView) -> Readers:
    """Return who reads the answers of a view, for `explain`."""
    return view.cached("screens.readers", lambda: reads_everything)


def _filtered(view: ClusterView, rights: VisitorRights) -> ClusterView:
    inputs = view.inputs
    unread = dict(view.unread)
    for kind in sorted({type(value).__name__ for value in inputs.cluster if not rights.sees(value)}):
        if rights.kinds is not None and kind not in rights.kinds and kind in _RESOURCES:
            unread.setdefault(_RESOURCES[kind], _DENIED)
    hidden = _hidden_claims(inputs.cluster, rights)
    objects = tuple(_visible(inputs.cluster, rights, unread, hidden))
    found = replace_fields(
        view,
        inputs=Inputs(inputs.features, objects, (), inputs.notes),
        unread=unread,
        trees=VisibleTrees(view.trees, rights.sees_key),
        events=tuple(event for event in view.events if _sees_event(event, rights)),
        devices=_known_devices(view, rights, hidden),
        carried=view.carried.of(("visible", rights), CarriedValues),
        node_values=NodeValues(),
    )
    if rights.namespaces is not None:
        reader = Reader(rights.namespaces)
        found.cached("screens.readers", lambda: lambda _: reader)
    return found


_RESOURCES: Final[Mapping[str, str]] = {
    "Node": "nodes", "ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses", "Namespace": "namespaces",
    "DeviceTaintRule": "devicetaintrules", "PersistentVolume": "persistentvolumes", "StorageClass": "storageclasses",
}  # fmt: skip


def _hidden_claims(objects: tuple[Object, ...], rights: VisitorRights) -> dict[ObjectKey, ObjectKey]:
    """The allocated claims that a visitor may not read, each with the name that it gets instead.

    Empty for a visitor without the permission to read devices: allocations name devices and nodes.
    """
    if rights.kinds is not None and ResourceSlice.__name__ not in rights.kinds:
        return {}
    hidden = (value for value in objects if isinstance(value, ResourceClaim) and not rights.sees(value))
    allocated = (claim.key for claim in hidden if claim.status.allocation is not None)
    return {key: ObjectKey(HIDDEN, f"claim-{number}") for number, key in enumerate(allocated, 1)}


def _visible(
    objects: tuple[Object, ...], rights: VisitorRights, unread: dict[str, str], hidden: Mapping[ObjectKey, ObjectKey]
) -> Iterator[Object]:
    for value in objects:
        if isinstance(value, ServerFacts):  # with what the visitor may not read, so that no answer calls it missing
            yield replace(value, unread={**unread, **value.unread})
        elif rights.sees(value):
            yield value
        elif isinstance(value, ResourceClaim) and value.status.allocation is not None and value.key in hidden:
            yield _without_names(value.status.allocation, hidden[value.key])


def _without_names(allocation: AllocationResult, key: ObjectKey) -> ResourceClaim:
    """An allocated claim with only what devices show: which are in use, and how much of them."""
    results = tuple(replace(result, request="any", tolerations=()) for result in allocation.devices.results)
    return ResourceClaim(
        metadata=ObjectMeta(name=key.name, namespace=key.namespace, uid=f"hidden-{key.name}"),
        status=ResourceClaimStatus(
            allocation=AllocationResult(
                devices=DeviceAllocationResult(results=results), node_selector=allocation.node_selector
            )
        ),
    )


def _known_devices(
    view: ClusterView, rights: VisitorRights, hidden: Mapping[ObjectKey, ObjectKey]
) -> KnownDevices | None:
    """The report on devices with other names of claims, for a visitor who can read all that it depends on."""
    known = view.devices
    if known is None or (rights.kinds is not None and not rights.kinds >= _OF_DEVICES):
        return None
    names = {str(key): str(name) for key, name in hidden.items()}
    unpublished = tuple(replace(each, claim=names.get(each.claim, each.claim)) for each in known.report.unpublished)
    nodes = tuple(_renamed(node, names) for node in known.report.nodes)
    return known._replace(report=replace(known.report, nodes=nodes, unpublished=unpublished))


def _renamed(node: NodeReport, names: Mapping[str, str]) -> NodeReport:
    """A node whose devices name no hidden claim; the same object if they do not do so anyway."""
    if not any(_names_any(device, names) for device in node.devices):
        return node
    return replace(node, devices=tuple(_without_holders(device, names) for device in node.devices))


def _names_any(device: DeviceReport, names: Mapping[str, str]) -> bool:
    return any(holder.claim in names for holder in device.holders) or any(name in names for name in device.blocked_by)


def _without_holders(device: DeviceReport, names: Mapping[str, str]) -> DeviceReport:
    if not _names_any(device, names):
        return device
    holders = tuple(
        replace(holder, claim=names[holder.claim], consumers=(), set_aside=False) if holder.claim in names else holder
        for holder in device.holders
    )
    return replace(device, holders=holders, blocked_by=tuple(names.get(name, name) for name in device.blocked_by))


def _sees_event(event: Mapping[str, object], rights: VisitorRights) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    if not isinstance(about, Mapping):
        return False
    key = ObjectKey(str(about.get("namespace") or ""), str(about.get("name") or ""))
    return rights.sees_key(str(about.get("kind") or ""), key) and rights.sees_key("Event", key)
