"""Planned machines as Karpenter's NodeClaims, and the MIG layouts that they are to boot with.

A NodeClaim without a NodePool is launched like any other, so one planned machine is one NodeClaim, pinned to one type,
zone and capacity type: Karpenter then chooses nothing and does the rest. It cannot be told how to cut a GPU. Where
that was planned, the node gets the label that NVIDIA's MIG manager follows, and the layout stands in its configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.fleet.catalog.export.karpenter import NODE_CLASSES, NodeClass
from allotment.fleet.catalog.labels import SETTERS
from allotment.model.core import Taint
from allotment.model.meta import Value
from allotment.model.trees import Tree, to_tree
from allotment.tools.plan.provisioning.mig_parted import (
    MIG_LABEL,
    mig_config_map,
    mig_config_name,
    mig_layout,
    mig_parted,
)
from allotment.tools.plan.report import PlannedMachine

API_VERSION: Final = "karpenter.sh/v1"
KIND: Final = "NodeClaim"
#: Drivers that must have published a complete pool before Karpenter calls the node initialised.
DRIVERS: Final = "karpenter.sh/requested-dra-drivers"
#: Whose machine it is.
OWNER: Final = "allotment.dev/autoscaler"
#: What was planned: the type's key in the catalogue, hardware and mode as ``--fleet`` says them, and what it costs.
INSTANCE: Final = "allotment.dev/instance-type"
FORM: Final = "allotment.dev/planned-hardware"
PRICE: Final = "allotment.dev/usd-per-hour"

_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
#: Of a node's labels those that choose the machine; the rest of Kubernetes' own comes from the cloud and the kubelet.
_REQUIREMENT_LABELS: Final = ("kubernetes.io/arch", "kubernetes.io/os")
_SYSTEM_DOMAINS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", *SETTERS)


class NodeClassNotFoundError(LookupError):
    """Raised when nobody said which NodeClass machines of a provider have."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"no NodeClass is known for machines of {provider}: name one as GROUP/KIND/NAME")


class NodeClaimSettings(Value, frozen=True):
    """What all NodeClaims have. ``node_classes``: by provider, instead of the usual ones.

    ``expire_after``: Karpenter ends a NodeClaim that does not say after 30 days, whatever runs on it.
    ``termination_grace``: after so long (``2h``) a drain no longer heeds PodDisruptionBudgets; empty: it always does.
    """

    owner: str = "allotment"
    node_classes: dict[str, NodeClass] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    expire_after: str = "Never"
    termination_grace: str = ""


def node_claims(machines: Iterable[PlannedMachine], settings: NodeClaimSettings | None = None) -> tuple[Tree, ...]:
    """A NodeClaim for each machine, in order, under the machine's name. Raises NoNodeClass."""
    return tuple(node_claim(machine.node, machine, settings or NodeClaimSettings()) for machine in machines)


def manifests(machines: Iterable[PlannedMachine], settings: NodeClaimSettings | None = None) -> tuple[Tree, ...]:
    """All that Karpenter and the MIG manager have to be given: the layouts first, then the NodeClaims."""
    planned = tuple(machines)
    text = mig_parted(mig_layout(machine) for machine in planned)
    layouts = (mig_config_map(text),) if text else ()
    return (*layouts, *node_claims(planned, settings))


def node_claim(name: str, machine: PlannedMachine, settings: NodeClaimSettings) -> Tree:
    """The NodeClaim of one machine. Raises NoNodeClass."""
    provider, _, instance = machine.instance.partition("/")
    node_class = settings.node_classes.get(provider) or NODE_CLASSES.get(provider)
    if node_class is None:
        raise NodeClassNotFoundError(provider)
    layout = mig_layout(machine)
    labels = {key: value for key, value in machine.labels.items() if not _is_system_label(key)}
    labels |= settings.labels | {OWNER: settings.owner}
    if layout:
        labels[MIG_LABEL] = mig_config_name(layout)
    annotations = {INSTANCE: machine.instance, FORM: machine.form, PRICE: str(machine.usd_per_hour)}
    annotations |= settings.annotations
    if machine.drivers:
        annotations[DRIVERS] = ",".join(machine.drivers)
    chosen = {_INSTANCE_TYPE: instance, _CAPACITY_TYPE: machine.capacity_type, _ZONE: machine.zone}
    chosen |= {key: machine.labels.get(key, "") for key in _REQUIREMENT_LABELS}
    spec: Tree = {
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in chosen.items() if value],
        "resources": {"requests": _requests(machine)},
        "nodeClassRef": {"group": node_class.group, "kind": node_class.kind, "name": node_class.name},
        "expireAfter": settings.expire_after,
    }
    if settings.termination_grace:
        spec["terminationGracePeriod"] = settings.termination_grace
    for field, taints in (("taints", (*machine.taints, *settings.taints)), ("startupTaints", settings.startup_taints)):
        if taints:
            spec[field] = [to_tree(taint) for taint in dict.fromkeys(taints)]
    metadata: Tree = {
        "name": name,
        "labels": dict(sorted(labels.items())),
        "annotations": {key: value for key, value in sorted(annotations.items()) if value},
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _is_system_label(label: str) -> bool:
    """Labels that the cloud, the kubelet, Karpenter or feature discovery sets on the real node."""
    domain = label.partition("/")[0] if "/" in label else ""
    return any(domain == other or domain.endswith(f".{other}") for other in _SYSTEM_DOMAINS)


def _requests(machine: PlannedMachine) -> Tree:
    """What its pods ask; claims have no place here, and need none, since the type is fixed."""
    cpu = sum(seat.cpu_milli for seat in machine.seats)
    memory = sum(seat.memory for seat in machine.seats)
    found: Tree = {"cpu": f"{cpu}m"} if cpu else {}
    if memory:
        found["memory"] = str(memory)
    return found | {"pods": str(max(len(machine.seats), 1))}
