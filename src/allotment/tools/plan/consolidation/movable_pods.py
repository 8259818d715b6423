"""Pods with all that they need to be placed again: their claims as they would be made anew, their volumes' reach."""

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
from allotment.node_fit.assigned_pod import Resident, resident_of
from allotment.node_fit.pod_requirements import Demands


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A pod with what it needs. ``own``: claims that were made for it alone; ``named``: those that it names."""

    tree: Tree
    key: ObjectKey
    resident: Resident
    own_claims: tuple[tuple[ResourceClaim, str], ...] = ()
    """As they would be made again, each with the template's name."""
    named_claims: tuple[ObjectKey, ...] = ()
    current_claims: tuple[ObjectKey, ...] = ()
    """Claims of its own that are there now, that of its extended resources too."""
    volumes: tuple[NodeSelector, ...] = ()
    obstacle: str = ""
    """What it needs and nobody can tell: a claim or a volume that is not there."""

    @property
    def order(self) -> tuple[int, str, ObjectKey]:
        """When a scheduler takes it: by priority, then by age."""
        return (-self.resident.priority, str(self.tree["metadata"].get("creationTimestamp") or ""), self.key)

    def own_claim_key(self, claim: ResourceClaim) -> ObjectKey:
        """Under which name a claim of its own is made."""
        return ObjectKey(self.key.namespace, claim.metadata.name)


@dataclass(slots=True)
class KnownClaim:
    """A claim as it is now. ``users``: uids of pods (and others) that it is reserved for."""

    value: ResourceClaim
    users: set[str] = field(default_factory=set)

    @property
    def allocation(self) -> AllocationResult | None:
        """The devices that it has now."""
        return self.value.status.allocation


class MovablePodReader:
    """Reads pods. ``volumes``: PersistentVolumes by name; ``volume_claims``: those that pods name."""

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
        self._requirements = Demands()

    def read(self, tree: Tree) -> MovablePod:
        """The pod of a tree; one that no API server has seen gets a uid."""
        metadata, spec, status = tree["metadata"], tree["spec"], tree.get("status") or {}
        key = key_of(tree)
        if not metadata.get("uid"):
            tree = {**tree, "metadata": {**metadata, "uid": f"pod:{key}"}}
            metadata = tree["metadata"]
        resident = resident_of(tree, self._requirements.of(spec, status if spec.get("nodeName") else None))
        made = {s.get("name"): s.get("resourceClaimName") for s in status.get("resourceClaimStatuses") or ()}
        own: list[tuple[ResourceClaim, str]] = []
        held: list[ObjectKey] = []
        named: list[ObjectKey] = []
        obstacle = ""
        pod = Pod(metadata=to_value(identity(metadata), ObjectMeta))
        for number, entry in enumerate(spec.get("resourceClaims") or ()):
            template_name = entry.get("resourceClaimTemplateName") or ""
            if not template_name:
                name = ObjectKey(key.namespace, entry.get("resourceClaimName") or "")
                named.append(name)
                if name not in self._claims:
                    obstacle = obstacle or f'its ResourceClaim "{name}" does not exist'
                continue
            if entry.get("name") in made and made[entry.get("name")] is None:
                continue  # none is needed for this entry
            existing = ObjectKey(key.namespace, made.get(entry.get("name")) or "")
            known = self._claims.get(existing)
            if known is not None and not _is_owned_by(known.value, metadata["uid"]):
                named.append(existing)  # made for a group of pods, and not for this one alone
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
                held.append(existing)
            own.append((value, template_name))
        for_resources = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        if for_resources:
            held.append(ObjectKey(key.namespace, for_resources))
        volumes, missing = self._volumes_of(key.namespace, spec)
        return MovablePod(
            tree, key, resident, tuple(own), tuple(dict.fromkeys(named)), tuple(held), volumes, obstacle or missing
        )

    def _volumes_of(self, namespace: str, spec: Tree) -> tuple[tuple[NodeSelector, ...], str]:
        """Where the pod's volumes can be reached; and what is not known of them."""
        found: list[NodeSelector] = []
        for volume in spec.get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name:
                continue
            claim = self._volume_claims.get(ObjectKey(namespace, name))
            bound = self._volumes.get(((claim or {}).get("spec") or {}).get("volumeName") or "")
            if bound is None:
                return (), f'where its PersistentVolumeClaim "{name}" can be reached is not known'
            required = ((bound.get("spec") or {}).get("nodeAffinity") or {}).get("required")
            if required:
                found.append(to_value(required, NodeSelector))
        return tuple(found), ""


def key_of(tree: Tree) -> ObjectKey:
    """Namespace and name."""
    return ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])


def identity(metadata: Tree) -> Tree:
    """Of an object's metadata what says which one it is."""
    return {name: metadata[name] for name in ("name", "namespace", "uid") if metadata.get(name)}


def _is_owned_by(claim: ResourceClaim, uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references)
