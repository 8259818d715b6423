"""Movable pods: running pods with the claims that rescheduling would create, and the topology of their volumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from allotment.model.core import Pod, PodResourceClaim
from allotment.model.generated_claims import generated_claim
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.node_selectors import NodeSelector
from allotment.model.resource import AllocationResult, ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from allotment.model.trees import Tree, to_value
from allotment.node_fit.assigned_pod import AssignedPod, to_assigned_pod
from allotment.node_fit.pod_requirements import PodRequirementsCache


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A pod to reschedule. ``own_claims``: generated for it; ``named_claims``: referenced by name or shared."""

    tree: Tree
    key: ObjectKey
    resident: AssignedPod
    own_claims: tuple[tuple[ResourceClaim, str], ...] = ()
    """Each as it would be generated again, with its template's name."""
    named_claims: tuple[ObjectKey, ...] = ()
    current_claims: tuple[ObjectKey, ...] = ()
    """Existing claims of its own, including that for extended resources."""
    volumes: tuple[NodeSelector, ...] = ()
    obstacle: str = ""
    """The reason why it cannot be rescheduled: a claim or volume that does not exist."""

    @property
    def order(self) -> tuple[int, str, ObjectKey]:
        """Its order in the scheduler's queue: by priority, then by age."""
        return (-self.resident.priority, str(self.tree["metadata"].get("creationTimestamp") or ""), self.key)

    def own_claim_key(self, claim: ResourceClaim) -> ObjectKey:
        """The key of one of its own claims."""
        return ObjectKey(self.key.namespace, claim.metadata.name)


@dataclass(slots=True)
class KnownClaim:
    """An existing claim. ``users``: the UIDs of its consumers."""

    value: ResourceClaim
    users: set[str] = field(default_factory=set)

    @property
    def allocation(self) -> AllocationResult | None:
        return self.value.status.allocation


class MovablePodReader:
    """Reads pods. ``volumes``: PersistentVolumes by name; ``volume_claims``: PersistentVolumeClaims by key."""

    def __init__(
        self,
        claims: Mapping[ObjectKey, KnownClaim],
        templates: Mapping[ObjectKey, ResourceClaimTemplate],
        volumes: Mapping[str, Tree],
        volume_claims: Mapping[ObjectKey, Tree],
    ) -> None:
        self._claims = claims
        self._templates = templates
        self._volumes = volumes
        self._volume_claims = volume_claims
        self._requirements = PodRequirementsCache()

    def read(self, tree: Tree) -> MovablePod:
        """The pod of a tree; a pod without a UID gets one."""
        metadata, spec, status = tree["metadata"], tree["spec"], tree.get("status") or {}
        key = key_of(tree)
        if not metadata.get("uid"):
            tree = {**tree, "metadata": {**metadata, "uid": f"pod:{key}"}}
            metadata = tree["metadata"]
        resident = to_assigned_pod(tree, self._requirements.of(spec, status if spec.get("nodeName") else None))
        generated = {s.get("name"): s.get("resourceClaimName") for s in status.get("resourceClaimStatuses") or ()}
        own_claims: list[tuple[ResourceClaim, str]] = []
        current_claims: list[ObjectKey] = []
        named_claims: list[ObjectKey] = []
        obstacle = ""
        pod = Pod(metadata=to_value(identity(metadata), ObjectMeta))
        for number, entry in enumerate(spec.get("resourceClaims") or ()):
            template_name = entry.get("resourceClaimTemplateName") or ""
            if not template_name:
                name = ObjectKey(key.namespace, entry.get("resourceClaimName") or "")
                named_claims.append(name)
                if name not in self._claims:
                    obstacle = obstacle or f'its ResourceClaim "{name}" does not exist'
                continue
            if entry.get("name") in generated and generated[entry.get("name")] is None:
                continue  # the controller generates none for this entry
            existing = ObjectKey(key.namespace, generated.get(entry.get("name")) or "")
            known = self._claims.get(existing)
            if known is not None and not _is_owned_by(known.value, metadata["uid"]):
                named_claims.append(existing)  # generated for a pod group
                continue
            template = self._templates.get(ObjectKey(key.namespace, template_name))
            if template is not None:
                value = generated_claim(pod, to_value(entry, PodResourceClaim), template, str(number))
            elif known is not None:
                value = replace(known.value, status=ResourceClaimStatus())
                obstacle = obstacle or f'its ResourceClaimTemplate "{template_name}" does not exist'
            else:
                obstacle = obstacle or f'its ResourceClaimTemplate "{template_name}" does not exist'
                continue
            if known is not None:
                current_claims.append(existing)
            own_claims.append((value, template_name))
        for_resources = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        if for_resources:
            current_claims.append(ObjectKey(key.namespace, for_resources))
        volumes, missing = self._volumes_of(key.namespace, spec)
        return MovablePod(
            tree,
            key,
            resident,
            tuple(own_claims),
            tuple(dict.fromkeys(named_claims)),
            tuple(current_claims),
            volumes,
            obstacle or missing,
        )

    def _volumes_of(self, namespace: str, spec: Tree) -> tuple[tuple[NodeSelector, ...], str]:
        """The node selectors of the pod's volumes, and the reason if one is unknown."""
        selectors: list[NodeSelector] = []
        for volume in spec.get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name:
                continue
            claim = self._volume_claims.get(ObjectKey(namespace, name))
            bound = self._volumes.get(((claim or {}).get("spec") or {}).get("volumeName") or "")
            if bound is None:
                return (), f'the topology of its PersistentVolumeClaim "{name}" is unknown'
            required = ((bound.get("spec") or {}).get("nodeAffinity") or {}).get("required")
            if required:
                selectors.append(to_value(required, NodeSelector))
        return tuple(selectors), ""


def key_of(tree: Tree) -> ObjectKey:
    """The key of an object."""
    return ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])


def identity(metadata: Tree) -> Tree:
    """The identifying fields of an object's metadata."""
    return {name: metadata[name] for name in ("name", "namespace", "uid") if metadata.get(name)}


def _is_owned_by(claim: ResourceClaim, uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references)
