"""Places a trace with the scheduler's filters for nodes and the engine for devices."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.engine import Allocator, Inventory, Placed
from allotment.fleet.device_classes import CLASSES
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.node_fit.assigned_pod import to_assigned_pod
from allotment.node_fit.filters.inter_pod_affinity import inter_pod_affinity
from allotment.node_fit.filters.topology_spread import topology_spread
from allotment.node_fit.node_table import NodeFitTables
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.tools.replay.manifests import CLASS, claim_of, node_tree, pod_tree, slice_of
from allotment.tools.replay.trace import TraceNode, TracePod


def first_fit(pods: Sequence[TracePod], nodes: Sequence[TraceNode]) -> list[tuple[str, tuple[str, ...]]]:
    """For each pod, the first node that fits and its devices there; an empty name if no node fits."""
    inventory = Inventory(Features(kube="1.36"))
    machines = NodeCache(inventory)
    for device_class in CLASSES["nvidia"]:
        if device_class.metadata.name == CLASS:
            inventory.put_class(device_class)
    for node in nodes:
        machines.put(node_tree(node))
        if node.gpus:
            inventory.put_slice(slice_of(node))
    tables, demands, allocator = NodeFitTables(machines), PodRequirementsCache(), Allocator(inventory)
    found: list[tuple[str, tuple[str, ...]]] = []
    for number, pod in enumerate(pods):
        tree = pod_tree(pod)
        tree["metadata"]["uid"] = tree["metadata"]["name"] = f"pod-{number}"
        demand = demands.of(tree["spec"])
        resident = to_assigned_pod(tree, demand)
        among = tables.of(demand).fits
        refused = {
            **topology_spread(demand, resident.namespace, resident.labels, machines),
            **inter_pod_affinity(resident, machines, {}),
        }
        for place in refused:
            among &= ~(1 << place)
        devices: tuple[str, ...] = ()
        if pod.gpus:
            outcome = allocator.place((claim_of(pod),), 0, among)
            if not isinstance(outcome, Placed):
                found.append(("", ()))
                continue
            name = outcome.node
            inventory.allocate(ObjectKey("default", f"pod-{number}-gpu"), outcome.results[0])
            devices = tuple(sorted(result.device for result in outcome.results[0].devices.results))
        else:
            if not among:
                found.append(("", ()))
                continue
            machine = machines.at((among & -among).bit_length() - 1)
            assert machine is not None
            name = machine.name
        machines.assign_pod(resident, name)
        found.append((name, devices))
    return found
