"""Planned machines as Karpenter NodeClaims, with the MIG configuration that they need.

Karpenter launches a NodeClaim without a NodePool like any other, so one planned machine is one NodeClaim with a fixed
type, zone and capacity type. Karpenter cannot configure MIG. For a planned MIG layout, the node gets the label that
NVIDIA's MIG manager reads, and the layout is in the manager's configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.fleet.catalog.export.karpenter import NODE_CLASSES, NodeClass
from allotment.fleet.catalog.labels import SETTERS
from allotment.model.core import Taint
from allotment.model.meta import Value
from allotment.model.trees import Tree, to_tree
from allotment.planning.provisioning.mig_parted import (
    MIG_LABEL,
    mig_config_map,
    mig_config_name,
    mig_layout,
    mig_parted,
)
from allotment.planning.report import PlannedMachine

API_VERSION: Final = "karpenter.sh/v1"
KIND: Final = "NodeClaim"
#: Drivers that must have published a complete pool before Karpenter considers the node initialized.
DRIVERS: Final = "karpenter.sh/requested-dra-drivers"
#: The owner of the machine.
OWNER: Final = "allotment.dev/autoscaler"
#: The plan: the type's key in the catalog, hardware and mode in the syntax of ``--fleet``, and the price.
INSTANCE: Final = "allotment.dev/instance-type"
FORM: Final = "allotment.dev/planned-hardware"
PRICE: Final = "allotment.dev/usd-per-hour"

_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
#: Node labels that become requirements; the cloud provider and the kubelet set the other Kubernetes labels.
_REQUIREMENT_LABELS: Final = ("kubernetes.io/arch", "kubernetes.io/os")
_SYSTEM_DOMAINS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", *SETTERS)


class NodeClassNotFoundError(LookupError):
    """Raised if no NodeClass is configured for a provider."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"no NodeClass for machines of {provider}; set one as GROUP/KIND/NAME")


class NodeClaimSettings(Value, frozen=True):
    """Settings for all NodeClaims. ``node_classes``: by provider, instead of the defaults.

    ``expire_after``: without it, Karpenter deletes a NodeClaim after 30 days. ``termination_grace``: the time (``2h``)
    after which a drain ignores PodDisruptionBudgets; empty: never.
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
    """A NodeClaim for each machine, in order, with the machine's name. Raises NodeClassNotFoundError."""
    return tuple(node_claim(machine.node, machine, settings or NodeClaimSettings()) for machine in machines)


def manifests(machines: Iterable[PlannedMachine], settings: NodeClaimSettings | None = None) -> tuple[Tree, ...]:
    """The manifests for the MIG manager and Karpenter: the layouts first, then the NodeClaims."""
    planned = tuple(machines)
    text = mig_parted(mig_layout(machine) for machine in planned)
    layouts = (mig_config_map(text),) if text else ()
    return (*layouts, *node_claims(planned, settings))


def node_claim(name: str, machine: PlannedMachine, settings: NodeClaimSettings) -> Tree:
    """The NodeClaim of one machine. Raises NodeClassNotFoundError."""
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
    requirements = {_INSTANCE_TYPE: instance, _CAPACITY_TYPE: machine.capacity_type, _ZONE: machine.zone}
    requirements |= {key: machine.labels.get(key, "") for key in _REQUIREMENT_LABELS}
    spec: Tree = {
        "requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items() if value
        ],
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
    """Whether the cloud provider, the kubelet, Karpenter or feature discovery sets the label."""
    domain = label.partition("/")[0] if "/" in label else ""
    return any(domain == other or domain.endswith(f".{other}") for other in _SYSTEM_DOMAINS)


def _requests(machine: PlannedMachine) -> Tree:
    """The requests of its pods. Claims are not needed here, as the type is fixed."""
    cpu = sum(placement.cpu_milli for placement in machine.placements)
    memory = sum(placement.memory for placement in machine.placements)
    requests: Tree = {"cpu": f"{cpu}m"} if cpu else {}
    if memory:
        requests["memory"] = str(memory)
    return requests | {"pods": str(max(len(machine.placements), 1))}
