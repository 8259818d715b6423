"""Simulates pod placement after the migration: through DRA, or by the device plugin on nodes kept for it.

Device plugin and driver do not see each other's allocations and could allocate the same GPU twice on one node. A node
therefore runs one of them: nodes that staying pods need are kept for the plugin, and their slices are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from allotment.engine.cluster.identity import DeviceID
from allotment.explanation import Answer, explain
from allotment.explanation.node_eligibility import daemon_node
from allotment.explanation.subjects import is_relevant, objects_to_explain
from allotment.model.core import Namespace, Pod
from allotment.model.decoding import decode_all
from allotment.model.meta import Object, ObjectKey, ObjectMeta
from allotment.model.resource import Device, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.workloads import PodGroup
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.simulation.before import place, place_all
from allotment.tools.migrate.simulation.cluster_nodes import extended_of
from allotment.tools.migrate.simulation.device_kind import DeviceKind, kind_of_device, summed
from allotment.tools.migrate.simulation.environment import SimulationEnvironment
from allotment.tools.migrate.simulation.plugin_node import PluginNode
from allotment.tools.migrate.simulation.subjects import SimulatedWorkload
from allotment.tools.migrate.simulation.trial_result import PodResult, name_of
from allotment.tools.views import mapping

ADMIN = "resource.kubernetes.io/admin-access"
_MANIFESTS = (ResourceClaim, ResourceClaimTemplate, DeviceClass, PodGroup)


class AfterResult(NamedTuple):
    """The result of each pod, by name, and the nodes ``kept`` for the device plugin with the workloads using them."""

    pods: dict[str, PodResult]
    kept: dict[str, tuple[str, ...]]


def simulate_after(environment: SimulationEnvironment) -> AfterResult:
    """Place all pods as they would be placed after the migration."""
    moving = [pod for pod in environment.others if _served(pod, environment)]
    staying = [pod for pod in environment.others if pod not in moving]
    plugin_nodes = environment.plugin_nodes(staying)
    found, kept = _place_staying(environment, plugin_nodes, staying)
    subjects = [subject for subject in environment.subjects if not subject.stays]
    answers = _explain(environment, subjects, moving, kept)
    devices = _devices(environment)
    left = [node for node in plugin_nodes if node.name in kept]
    for subject in subjects:
        for pod in subject.after:
            answer = answers[name_of(pod)]
            if subject.daemon and answer.reasons is not None and answer.reasons.headline.code == "node-not-eligible":
                continue  # the DaemonSet creates no pod there
            result = _pod_result(name_of(pod), answer, subject, devices)
            if not result.fits and subject.migrated.decision.outcome == "class" and not subject.daemon:
                result = _placed_by_plugin(result, pod, subject.wants, left)
            found[result.pod] = result if result.fits else _blocked_by_plugin(result, pod, kept, len(plugin_nodes))
    return AfterResult(found, kept)


def _place_staying(
    environment: SimulationEnvironment, plugin_nodes: list[PluginNode], staying: Iterable[Pod]
) -> tuple[dict[str, PodResult], dict[str, tuple[str, ...]]]:
    """Place the pods that stay with the device plugin, and find the nodes that they need.

    A DaemonSet's pods follow the nodes and do not keep a node for the plugin.
    """
    users: dict[str, list[str]] = {}
    for pod in staying:
        users.setdefault(pod.spec.node_name, []).append(f"Pod {name_of(pod)}")
    stays = [subject for subject in environment.subjects if subject.stays]
    found: dict[str, PodResult] = {}
    for subject in stays:
        if not subject.daemon:
            placed = place_all([subject], plugin_nodes)
            found |= placed
            for result in placed.values():
                if result.fits:
                    users.setdefault(result.node, []).append(subject.migrated.subject)
    daemons = [subject for subject in stays if subject.daemon]
    if len(stays) == len(environment.subjects):
        for node in plugin_nodes:
            users.setdefault(node.name, [])
    for name, result in place_all(daemons, plugin_nodes).items():
        if result.node and result.node not in users:
            why = f"{result.node} moves to the driver, but this DaemonSet stays with the device plugin"
            result = PodResult(pod=name, reason=why)
        found[name] = result
    return found, {node: tuple(dict.fromkeys(names)) for node, names in users.items()}


def _served(pod: Pod, environment: SimulationEnvironment) -> bool:
    """Whether classes serve all of a pod's device plugin resources, so that it can restart without the plugin."""
    target = environment.migration.target
    made = {device_class.name for device_class in environment.migration.classes}
    classes = [v for v in _manifests(environment) if isinstance(v, DeviceClass) and v.metadata.name in made]
    names = {device_class.spec.extended_resource_name for device_class in (*target.classes, *classes)}
    return target.on("DRAExtendedResource") and all(resource in names for resource in extended_of(pod))


def _explain(
    environment: SimulationEnvironment,
    subjects: Iterable[SimulatedWorkload],
    moving: Iterable[Pod],
    kept: Iterable[str],
) -> dict[str, Answer]:
    target = environment.migration.target
    assert target.features is not None
    plugin_nodes = frozenset(kept)
    slices = [slice_ for slice_ in target.slices if not _on(slice_, plugin_nodes)]
    state = [
        value
        for value in target.objects
        if is_relevant(value, only_state=True) and type(value).__name__ not in ("Node", "ResourceSlice", "DeviceClass")
    ]
    cluster = [*environment.without_plugin(), *slices, *target.classes, *state, *_admin_namespaces(environment, state)]
    pods = [*map(_unbound, moving), *(pod for subject in subjects for pod in subject.after)]
    explanation = explain(objects_to_explain(cluster, [*_manifests(environment), *pods]), target.features)
    return {answer.name: answer for answer in explanation.answers if answer.kind == "Pod"}


def _manifests(environment: SimulationEnvironment) -> list[Object]:
    """The claims, templates and classes after the migration."""
    migration = environment.migration
    found: list[Object] = []
    for manifest in decode_all(migration.after, strict=False).manifests:
        if isinstance(manifest.value, _MANIFESTS):
            written = mapping(manifest.document.tree.get("metadata")).get("namespace")
            home = manifest.key.namespace if written or not manifest.key.namespace else migration.namespace
            found.append(replace(manifest.value, metadata=replace(manifest.value.metadata, namespace=home)))
    return found


def _admin_namespaces(environment: SimulationEnvironment, state: Iterable[Object]) -> list[Object]:
    """The namespaces that need admin access, with the label set."""
    existing = {value.metadata.name: value for value in state if isinstance(value, Namespace)}
    names = {name for workload in environment.migration.workloads for name in workload.decision.needs.admin_namespaces}
    found: list[Object] = []
    for name in sorted(names):
        meta = existing[name].metadata if name in existing else ObjectMeta(name=name)
        found.append(Namespace(metadata=replace(meta, labels={**meta.labels, ADMIN: "true"})))
    return found


def _on(slice_: ResourceSlice, nodes: frozenset[str]) -> bool:
    return slice_.spec.node_name in nodes or any(device.node_name in nodes for device in slice_.spec.devices or ())


def _unbound(pod: Pod) -> Pod:
    """A pod of the cluster before it is scheduled."""
    return replace(pod, spec=replace(pod.spec, node_name=""))


def _devices(environment: SimulationEnvironment) -> dict[DeviceID, Device]:
    return {
        DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name): device
        for slice_ in environment.migration.target.slices
        for device in slice_.spec.devices or ()
    }


def _pod_result(name: str, answer: Answer, subject: SimulatedWorkload, devices: dict[DeviceID, Device]) -> PodResult:
    if not answer.fits:
        assert answer.reasons is not None
        headline = answer.reasons.headline
        return PodResult(
            pod=name, reason=headline.summary, change="; ".join(change.text for change in headline.changes)
        )
    workload = subject.migrated
    kinds: list[DeviceKind] = []
    for claim in answer.claims:
        own = str(ObjectKey(workload.namespace, workload.claim_name)) == claim.name
        if not (own or claim.template == workload.claim_name or (not workload.claim_name and not claim.template)):
            continue  # a claim that the pod had before
        for given in claim.devices:
            device = devices.get(DeviceID(given.driver, given.pool, given.device))
            if device is not None:
                shared = bool(given.share) or workload.decision.outcome == "claim"
                kinds.append(kind_of_device(device, given.driver, shared))
    return PodResult(pod=name, node=answer.node, devices=summed(kinds))


def _placed_by_plugin(
    refused: PodResult, pod: Pod, wants: tuple[PluginRequest, ...], left: list[PluginNode]
) -> PodResult:
    """Place a pod with an unchanged manifest on a node that keeps its device plugin (KEP-5004), if possible."""
    result, _ = place(pod, wants, left)
    return result if result.fits else refused


def _blocked_by_plugin(refused: PodResult, pod: Pod, kept: dict[str, tuple[str, ...]], nodes: int) -> PodResult:
    """The reason for a daemon pod on a node that keeps the plugin, or for any pod if all nodes keep it."""
    node = daemon_node(pod)
    if node not in kept and (node or len(kept) < nodes):
        return refused
    held = [node] if node else list(kept)
    users = dict.fromkeys(user for name in held for user in kept[name])
    shown = f"{held[0]} keeps its" if len(held) == 1 else f"all {len(held)} nodes keep their"
    return PodResult(pod=refused.pod, reason=f"{shown} device plugin for {', '.join(list(users)[:2])}")
