"""The machines of a plan with the slices that their drivers publish, and the real scheduler, in memory.

Of the planner only its result is used: machines, and the node of each pod. Workloads become pods as their controllers
would create them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from allotment.api.objects.validation import validate
from allotment.cel.validation_context import validation_context
from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NAMESPACES, NODES, PODS, SLICES
from allotment.fleet import CLASSES, FleetCluster, cluster_of, parse_fleet
from allotment.fleet.catalog.templates import template_of
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.model.resource import DeviceTaint, ResourceSlice
from allotment.model.trees import Tree, to_tree
from allotment.node_fit.nodes import RESERVED
from allotment.planning.report import ProvisioningPlan
from tests.storm.demands import NAMESPACE, Scenario
from tests.unit.scheduler.world import World, world

KUBE: Final = "1.36"
FEATURES: Final = Features(kube=KUBE)
#: Seconds without a binding after which the scheduler is idle.
_QUIET_SECONDS: Final = 1.0
#: Additional seconds, so that a scheduler that has not started yet is not considered idle.
_START_SECONDS: Final = 10.0

_NAMESPACE: Final[Tree] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": NAMESPACE, "labels": {"resource.kubernetes.io/admin-access": "true"}},
}

_Objects = list[tuple[Resource, Tree]]


def values_of(trees: Iterable[Tree]) -> tuple[Object, ...]:
    """Convert manifests to values; each must be valid by the API server's rules."""
    return _validate(trees)[1:]


def _validate(trees: Iterable[Tree]) -> tuple[Object, ...]:
    # The namespace's labels decide what claims in it may request.
    text = "\n---\n".join(json.dumps(tree) for tree in (_NAMESPACE, *trees))
    values, problems = validate(load_text(text, "scenario.yaml"), validation_context(FEATURES))
    assert not problems, problems
    return tuple(values)


def namespace() -> Object:
    """The namespace of all objects."""
    return _validate(())[0]


def classes() -> tuple[Object, ...]:
    """The classes that the vendors' charts install."""
    return (*CLASSES["nvidia"], *CLASSES["amd"])


def existing_machines(scenario: Scenario) -> FleetCluster:
    """The machines that exist before anything is planned."""
    if not scenario.fleet:
        return FleetCluster((), (), ())
    created = cluster_of(parse_fleet(scenario.fleet), KUBE)
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", **scenario.node.get("amounts", {})}
    nodes = []
    for node in created.nodes:
        tree = to_tree(node, "v1", "Node") | {"status": {"capacity": amounts, "allocatable": amounts}}
        tree["metadata"]["labels"] = {**tree["metadata"].get("labels", {}), **scenario.node.get("labels", {})}
        tree["spec"] = {"taints": scenario.node.get("taints", [])}
        nodes.append(tree)
    slices = created.slices
    taints = tuple(DeviceTaint(**taint) for taint in scenario.node.get("devices", ()))
    if taints:
        slices = tuple(_with_taints(slice_, taints) for slice_ in slices)
    return FleetCluster(tuple(item for item in values_of(nodes) if isinstance(item, Node)), slices, created.classes)


def _with_taints(slice_: ResourceSlice, taints: tuple[DeviceTaint, ...]) -> ResourceSlice:
    """Every second device has the taints."""
    devices = slice_.spec.devices
    if not devices:
        return slice_
    changed = tuple(replace(device, taints=taints) if at % 2 else device for at, device in enumerate(devices))
    return replace(slice_, spec=replace(slice_.spec, devices=changed))


def pods_and_claims(scenario: Scenario) -> tuple[list[Tree], list[Tree]]:
    """All pods that will exist, and the claims that are created for them; those of workloads are the youngest."""
    pods = [dict(pod) for pod in scenario.pods]
    claims = list(scenario.claims)
    templates = {tree["metadata"]["name"]: tree for tree in scenario.objects if tree["kind"] == "ResourceClaimTemplate"}
    for workload in scenario.objects:
        spec = workload.get("spec", {})
        if workload["kind"] not in ("Deployment", "StatefulSet", "Job"):
            continue
        for number in range(spec.get("replicas", spec.get("parallelism", 0))):
            pod, created = _pod(workload, number, templates)
            pods.append(pod)
            claims += created
    return pods, claims


def _pod(workload: Tree, number: int, templates: dict[str, Tree]) -> tuple[Tree, list[Tree]]:
    owner = workload["metadata"]["name"]
    name = f"{owner}-{number}"
    template = workload["spec"]["template"]
    statuses, claims = [], []
    for entry in template["spec"]["resourceClaims"]:
        claim = f"{name}-{entry['name']}"
        statuses.append({"name": entry["name"], "resourceClaimName": claim})
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
        ]  # fmt: skip
        claims.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": claim, "namespace": NAMESPACE, "ownerReferences": owners},
                "spec": templates[entry["resourceClaimTemplateName"]]["spec"]["spec"],
            }
        )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": template["metadata"]["labels"],
            "creationTimestamp": f"2026-01-02T00:00:{number:02d}Z",
        },
        "spec": template["spec"],
        "status": {"phase": "Pending", "resourceClaimStatuses": statuses},
    }  # fmt: skip
    return pod, claims


def plan_names(scenario: Scenario) -> dict[str, str]:
    """Names of pods by the names in the plan: pods of workloads do not exist yet."""
    found = {pod["metadata"]["name"]: pod["metadata"]["name"] for pod in scenario.pods}
    for workload in scenario.objects:
        owner, spec = workload["metadata"]["name"], workload.get("spec", {})
        for number in range(spec.get("replicas", spec.get("parallelism", 0)) if "template" in spec else 0):
            job = workload["kind"] == "Job"
            found[f"{owner}-{number}-{number}" if job else f"{owner}-{number}"] = f"{owner}-{number}"
    return found


async def left_unbound(
    made: ProvisioningPlan, scenario: Scenario, cluster: FleetCluster, *, nominated: bool
) -> dict[str, str]:
    """Planned pods that the scheduler does not bind, with their planned node and the reason.

    ``nominated``: pods have nominated nodes, and planned nodes are reserved for them, as the autoscaler does it.
    """
    names = plan_names(scenario)
    placements = [*made.existing, *(placement for machine in made.machines for placement in machine.placements)]
    places = {names[placement.pod.name]: placement.node for placement in placements if placement.pod.name in names}
    objects = objects_of(made, scenario, cluster, places if nominated else {}, reserved=nominated)
    async with world(*objects, features=FEATURES) as running:
        loop = asyncio.get_running_loop()
        start = loop.time()
        quiet_since, bound = start, 0
        while not places.keys() <= dict(running.client.bound).keys():
            now = loop.time()
            if len(running.client.bound) != bound:
                quiet_since, bound = now, len(running.client.bound)
            if now - quiet_since > (_QUIET_SECONDS if bound or _has_reported(running) else _START_SECONDS):
                break
            await asyncio.sleep(0.002)
        remaining = sorted(places.keys() - dict(running.client.bound).keys())
        return {name: f"planned on {places[name]}: {_condition(running, name)}" for name in remaining}


def _has_reported(running: World) -> bool:
    """Whether the scheduler has reported anything about any pod."""
    pods = [tree for (kind, _, _), tree in running.client.objects.items() if kind == PODS]
    return any(pod.get("status", {}).get("conditions") for pod in pods)


def _condition(running: World, name: str) -> Any:
    return running.client.objects[PODS, NAMESPACE, name].get("status", {}).get("conditions")


def objects_of(
    made: ProvisioningPlan, scenario: Scenario, cluster: FleetCluster, places: dict[str, str], *, reserved: bool
) -> _Objects:  # fmt: skip
    """All objects that the scheduler sees: the machines of a plan with their real slices, and the pods with
    nominations.

    ``reserved``: planned nodes accept only the pods that were planned for them.
    """
    types = {instance.key: instance for instance in scenario.catalog}
    nodes: list[Tree] = [to_tree(node, "v1", "Node") for node in cluster.nodes]
    slices: list[ResourceSlice] = list(cluster.slices)
    for machine in made.machines:
        template = template_of(
            types[machine.instance], machine.form.partition("/")[2], machine.node, zone=machine.zone,
            capacity_type=machine.capacity_type,
        )  # fmt: skip
        tree = to_tree(template.node, "v1", "Node")
        if reserved:
            spec = tree.get("spec", {})
            taint = {"key": RESERVED, "value": machine.node, "effect": "NoSchedule"}
            tree["spec"] = {**spec, "taints": [*spec.get("taints", ()), taint]}
        nodes.append(tree)
        if machine.form:
            slices += cluster_of(parse_fleet([f"{machine.node}={machine.form}"]), KUBE).slices
    pods, claims = pods_and_claims(scenario)
    names = plan_names(scenario)
    # A scheduler with gang scheduling does not start a part of a gang; and the devices of some pods cannot be
    # predicted.
    held = {names[item.pod.name] for item in made.unserved if item.code in ("gang", "run-time-only")}
    pods = [pod for pod in pods if pod["metadata"]["name"] not in held]
    for pod in pods:
        node = places.get(pod["metadata"]["name"], "")
        if not pod["spec"].get("nodeName"):
            pod["status"] = {**pod["status"], "nominatedNodeName": node}
        if reserved and any(machine.node == node for machine in made.machines):
            own = {"key": RESERVED, "operator": "Equal", "value": node, "effect": "NoSchedule"}
            pod["spec"] = {**pod["spec"], "tolerations": [*pod["spec"].get("tolerations", ()), own]}
    by_kind = {"ResourceSlice": SLICES, "DeviceClass": DEVICE_CLASSES}
    others: Sequence[tuple[Resource, Tree]] = [
        (by_kind[tree["kind"]], tree) for tree in scenario.objects if tree["kind"] in by_kind
    ]
    return [
        (NAMESPACES, _NAMESPACE),
        *((NODES, tree) for tree in nodes),
        *((SLICES, to_tree(slice_, "resource.k8s.io/v1", "ResourceSlice")) for slice_ in slices),
        *((DEVICE_CLASSES, to_tree(class_, "resource.k8s.io/v1", "DeviceClass")) for class_ in classes()),
        *others,
        *((CLAIMS, to_tree(item, "resource.k8s.io/v1", "ResourceClaim")) for item in values_of(claims)),
        *((PODS, pod) for pod in (*_daemon_pods(scenario, nodes), *pods)),
    ]


def _daemon_pods(scenario: Scenario, nodes: Sequence[Tree]) -> Iterable[Tree]:
    """Daemon pods here tolerate everything, so that one is on every node."""
    for daemon in (tree for tree in scenario.objects if tree["kind"] == "DaemonSet"):
        template = daemon["spec"]["template"]
        for node in nodes:
            name = node["metadata"]["name"]
            metadata = {"name": f"daemon-{name}", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
            spec = {**template["spec"], "nodeName": name}
            yield {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
