"""The claims of one pod in an attempt, and the nodes that can use their volumes.

As in Kubernetes, claims whose class binds immediately must be bound before; those that wait for their first pod are
matched with the volumes that a node can use, or provisioned for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from allotment.model.core import LabelSelector
from allotment.model.node_selectors import NodeSelector
from allotment.model.pod_volume_claims import claim_names, is_for, not_owned_message
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree, to_value
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import matcher
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import selector_matches
from allotment.node_fit.volume_matching import (
    NO_PROVISIONER,
    SELECTED_NODE,
    access_modes,
    annotations_of,
    class_of,
    is_fully_bound,
    requested_size,
    smallest_match,
    waits_for_consumer,
)
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.volumes.cluster_volumes import ClusterVolumes, VolumeChoice

_IN_USE_TEXT: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_IN_USE: Final = Refusal((_IN_USE_TEXT,), preemption_may_help=True, cause="volume-in-use")
_TOO_MANY: Final = Refusal(("node(s) exceed max volume count",), preemption_may_help=True, cause="volume-limits")
_NO_MATCH: Final = "node(s) didn't find available persistent volumes to bind"
_OTHER_NODES: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_SPACE: Final = "node(s) did not have enough free storage"
_OTHER_ZONE: Final = Refusal(("node(s) had no available volume zone",), cause="volumes")
_ZONE_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
)  # fmt: skip
_BETA: Final = "failure-domain.beta.kubernetes.io/"


class PodVolumes:
    """The volumes of a pod. ``obstacle``: the reason why no node can be checked yet, or an empty string."""

    def __init__(self, pod: QueuedPod, cluster: ClusterVolumes, machines: NodeCache) -> None:
        self._pod = pod
        self._cluster = cluster
        self._machines = machines
        self._claims: list[Tree] = []
        self._bound: list[Tree] = []
        self._delayed: list[Tree] = []
        self.cause = "volume-claims"
        """The cause of the obstacle: the claims themselves, or a volume that is missing."""
        self.obstacle = self._find_claims() or self._find_volumes()

    # --- before any node is checked ----------------------------------------------------------------------------------

    def _find_claims(self) -> str:
        """Find the claims; return the reason if one of them cannot be used."""
        namespace = self._pod.key.namespace
        found = [(name, made, self._cluster.claim(namespace, name)) for name, made in self._pod.volume_claims]
        for name, made, claim in found:
            if claim is None and not made:
                return f'persistentvolumeclaim "{name}" not found'
        for name, made, claim in found:
            if claim is None:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            if (claim.get("status") or {}).get("phase") == "Lost":
                volume = claim["spec"].get("volumeName") or ""
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            if "deletionTimestamp" in claim["metadata"]:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if made and not is_for(claim, self._pod.tree):
                return not_owned_message(claim, self._pod.tree)
            self._claims.append(claim)
        return ""

    def _find_volumes(self) -> str:
        """Find the volumes of bound claims; return the reason if a claim must be bound first."""
        unbound = False
        for claim in self._claims:
            if is_fully_bound(claim):
                continue
            if waits_for_consumer(self._cluster.storage_class(class_of(claim))) and not claim["spec"].get("volumeName"):
                self._delayed.append(claim)
            else:
                unbound = True
        if unbound:
            return "pod has unbound immediate PersistentVolumeClaims"
        for claim in self._claims:
            if name := claim["spec"].get("volumeName"):
                volume = self._cluster.volume(name)
                if volume is None:
                    self.cause = "volumes"
                    return f'persistentvolume "{name}" not found'
                self._bound.append(volume)
        self._delayed.sort(key=requested_size)
        return ""

    # --- nodes -------------------------------------------------------------------------------------------------------

    def refusals(self, machines: Iterable[CachedNode]) -> dict[int, Refusal]:
        """Return the refusals of nodes, by their indexes."""
        in_use = self._is_in_use()
        handles = self._handles(self._claims) if self._cluster.has_limits else {}
        tests = [volume for volume in self._bound if _affinity(volume) is not None]
        zones = [(label, values) for volume in self._bound for label, values in _zones(volume)]
        if not (in_use or handles or tests or zones or self._delayed):
            return {}
        found: dict[int, Refusal] = {}
        for machine in machines:
            refusal = _IN_USE if in_use else None
            refusal = refusal or (self._limit_refusal(machine, handles) if handles else None)
            refusal = refusal or self._binding_refusal(machine, tests)
            refusal = refusal or (_zone_refusal(machine, zones) if zones else None)
            if refusal is not None:
                found[machine.index] = refusal
        return found

    def choice(self, machine: CachedNode) -> VolumeChoice:
        """Return the volumes for the claims that are not bound, on a node that is not refused."""
        found = self._choose(machine)
        assert isinstance(found, VolumeChoice)
        return found

    def _is_in_use(self) -> bool:
        """Whether another pod uses a claim that only one pod may use."""
        namespace, uid = self._pod.key.namespace, self._pod.uid
        for name, made in self._pod.volume_claims:
            claim = self._cluster.claim(namespace, name)
            if made or claim is None or "ReadWriteOncePod" not in access_modes(claim):
                continue
            users = self._cluster.users((namespace, name))
            if any(user != uid and self._machines.node_of(user) is not None for user in users):
                return True
        return False

    def _binding_refusal(self, machine: CachedNode, bound: Sequence[Tree]) -> Refusal | None:
        texts = [] if all(_reaches(volume, machine) for volume in bound) else [_OTHER_NODES]
        found = self._choose(machine) if self._delayed else ""
        if isinstance(found, str) and found:
            texts.append(found)
        return Refusal(tuple(texts), cause="volumes") if texts else None

    def _choose(self, machine: CachedNode) -> VolumeChoice | str:
        """Match the claims with volumes, or plan to provision them; the reason if a node can do neither."""
        bindings: list[tuple[Tree, Tree]] = []
        provisions: list[Tree] = []
        left: list[Tree] = []
        taken: set[str] = set()
        for claim in self._delayed:
            if (node := annotations_of(claim).get(SELECTED_NODE)) is not None:
                if node != machine.name:
                    return _NO_MATCH
                left.append(claim)
        for claim in self._delayed:
            if SELECTED_NODE in annotations_of(claim):
                continue
            volumes = self._cluster.of_class(class_of(claim))
            volume = smallest_match(
                claim, volumes, delayed=True, excluded=taken, reaches=lambda volume: _reaches(volume, machine)
            )
            if volume is None:
                left.append(claim)
            else:
                taken.add(volume["metadata"]["name"])
                bindings.append((volume, claim))
        for claim in left:
            storage_class = self._cluster.storage_class(class_of(claim))
            if storage_class is None or not _provisions(storage_class, machine):
                return _NO_MATCH
            if not self._has_space(claim, storage_class, machine):
                return _NO_SPACE
            provisions.append(claim)
        return VolumeChoice(tuple(bindings), tuple(provisions))

    def _has_space(self, claim: Tree, storage_class: Tree, machine: CachedNode) -> bool:
        """Whether the provisioner publishes enough capacity for a claim on a node, if it publishes any."""
        driver = self._cluster.driver(storage_class["provisioner"])
        if driver is None or not driver["spec"].get("storageCapacity"):
            return True
        name, wanted = storage_class["metadata"]["name"], requested_size(claim)
        for capacity in self._cluster.capacities():
            limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
            topology = capacity.get("nodeTopology")
            if (
                capacity.get("storageClassName") == name
                and limit is not None
                and wanted <= Quantity.parse(str(limit))
                and topology is not None
                and matcher(to_value(topology, LabelSelector))(machine.facts.labels)
            ):
                return True
        return False

    # --- limits ------------------------------------------------------------------------------------------------------

    def _handles(self, claims: Iterable[Tree]) -> dict[str, str]:
        """Return the CSI drivers of claims by the handles of their volumes."""
        found: dict[str, str] = {}
        for claim in claims:
            volume = self._cluster.volume(claim["spec"].get("volumeName") or "")
            if volume is not None:
                if (source := volume["spec"].get("csi")) is not None:
                    found[f"{source['driver']}/{source['volumeHandle']}"] = source["driver"]
            elif (storage_class := self._cluster.storage_class(class_of(claim))) is not None:
                about = claim["metadata"]
                provisioner: str = storage_class["provisioner"]
                found[f"{provisioner}/{about.get('namespace')}/{about['name']}"] = provisioner
        return found

    def _limit_refusal(self, machine: CachedNode, handles: dict[str, str]) -> Refusal | None:
        """Return the refusal of a node that lacks a driver or has the most volumes of it."""
        drivers = self._cluster.drivers_on(machine.name)
        for name in handles.values() if self._cluster.requires_drivers else ():
            driver = self._cluster.driver(name)
            wanted = driver is not None and driver["spec"].get("preventPodSchedulingIfMissing")
            if wanted and name not in (drivers or {}):
                text = f"{name} CSI driver is not installed on the node"
                return Refusal((text,), preemption_may_help=True, cause="volume-limits")
        limits = {name: limit for name, limit in (drivers or {}).items() if limit is not None}
        if not any(name in limits for name in handles.values()):
            return None
        attached: dict[str, str] = {}
        for other in machine.pods.values():
            tree = self._cluster.pod(other.namespace, other.name)
            if tree is not None:
                known = (self._cluster.claim(other.namespace, name) for name, _ in claim_names(tree))
                attached |= self._handles(claim for claim in known if claim is not None)
        new = {handle: name for handle, name in handles.items() if handle not in attached}
        counts = list(attached.values())
        for name in set(new.values()):
            if name in limits and counts.count(name) + list(new.values()).count(name) > limits[name]:
                return _TOO_MANY
        return None


def _affinity(volume: Tree) -> Tree | None:
    required: Tree | None = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required


def _reaches(volume: Tree, machine: CachedNode) -> bool:
    """Whether a node can use a volume."""
    required = _affinity(volume)
    return required is None or selector_matches(to_value(required, NodeSelector), machine.facts)


def _provisions(storage_class: Tree, machine: CachedNode) -> bool:
    """Whether volumes of a class can be created for a node."""
    if storage_class["provisioner"] in ("", NO_PROVISIONER):
        return False
    terms = storage_class.get("allowedTopologies") or ()
    labels = machine.facts.labels
    return not terms or any(
        all(labels.get(each["key"]) in each["values"] for each in term.get("matchLabelExpressions") or ())
        for term in terms
    )


def _zones(volume: Tree) -> Iterable[tuple[str, frozenset[str]]]:
    """The zone labels of a volume, with their alternatives."""
    labels = volume["metadata"].get("labels") or {}
    return [(name, frozenset(labels[name].split("__"))) for name in _ZONE_LABELS if labels.get(name)]


def _zone_refusal(machine: CachedNode, zones: Iterable[tuple[str, frozenset[str]]]) -> Refusal | None:
    labels = machine.facts.labels
    if not any(name in labels for name in _ZONE_LABELS):
        return None
    for name, values in zones:
        own = labels.get(name)
        if own is None and name.startswith(_BETA):
            own = labels.get(f"topology.kubernetes.io/{name.removeprefix(_BETA)}")
        if own not in values:
            return _OTHER_ZONE
    return None
