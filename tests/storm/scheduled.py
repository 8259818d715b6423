"""The machines of a plan with what their drivers really publish, and the real scheduler, in memory.

Nothing of the planner is used here but what it said: machines, and which pod is where. Workloads become pods as their
controllers would make them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from allotment.cel.validation_context import validation_context
from allotment.cli.inputs.objects import validate
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
from allotment.tools.plan.report import ProvisioningPlan
from tests.storm.demands import NAMESPACE, Scenario
from tests.unit.scheduler.world import World, world

KUBE: Final = "1.36"
FEATURES: Final = Features(kube=KUBE)
#: The scheduler has nothing more to do when nothing was bound for so long.
_QUIET_SECONDS: Final = 1.0
#: Beside what waits, so that a scheduler that has not begun yet is not taken for one that is done.
_PATIENCE_SECONDS: Final = 10.0

_NAMESPACE: Final[Tree] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": NAMESPACE, "labels": {"resource.kubernetes.io/admin-access": "true"}},
}

_Objects = list[tuple[Resource, Tree]]


def values_of(trees: Iterable[Tree]) -> tuple[Object, ...]:
    """Manifests as values, each accepted by the API server's rules."""
    return _judged(trees)[1:]


def _judged(trees: Iterable[Tree]) -> tuple[Object, ...]:
    # The namespace's labels say what claims in it may ask for.
    text = "\n---\n".join(json.dumps(tree) for tree in (_NAMESPACE, *trees))
    values, problems = validate(load_text(text, "scenario.yaml"), validation_context(FEATURES))
    assert not problems, problems
    return tuple(values)


def namespace() -> Object:
    """Where all of it is."""
    return _judged(())[0]


def classes() -> tuple[Object, ...]:
    """Those that the vendors' charts install."""
    return (*CLASSES["nvidia"], *CLASSES["amd"])


def there(given: Scenario) -> FleetCluster:
    """The machines that are there before anything is planned."""
    if not given.fleet:
        return FleetCluster((), (), ())
    made = cluster_of(parse_fleet(given.fleet), KUBE)
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", **given.node.get("amounts", {})}
    nodes = []
    for node in made.nodes:
        tree = to_tree(node, "v1", "Node") | {"status": {"capacity": amounts, "allocatable": amounts}}
        tree["metadata"]["labels"] = {**tree["metadata"].get("labels", {}), **given.node.get("labels", {})}
        tree["spec"] = {"taints": given.node.get("taints", [])}
        nodes.append(tree)
    slices = made.slices
    taints = tuple(DeviceTaint(**taint) for taint in given.node.get("devices", ()))
    if taints:
        slices = tuple(_tainted(one, taints) for one in slices)
    return FleetCluster(tuple(one for one in values_of(nodes) if isinstance(one, Node)), slices, made.classes)


def _tainted(slice_: ResourceSlice, taints: tuple[DeviceTaint, ...]) -> ResourceSlice:
    """Every second device has the taints."""
    devices = slice_.spec.devices
    if not devices:
        return slice_
    changed = tuple(replace(one, taints=taints) if at % 2 else one for at, one in enumerate(devices))
    return replace(slice_, spec=replace(slice_.spec, devices=changed))


def pods_and_claims(given: Scenario) -> tuple[list[Tree], list[Tree]]:
    """All pods that will be, and the claims that are made for them; those of workloads are the youngest."""
    pods = [dict(pod) for pod in given.pods]
    claims = list(given.claims)
    templates = {one["metadata"]["name"]: one for one in given.objects if one["kind"] == "ResourceClaimTemplate"}
    for workload in given.objects:
        spec = workload.get("spec", {})
        if workload["kind"] not in ("Deployment", "StatefulSet", "Job"):
            continue
        for number in range(spec.get("replicas", spec.get("parallelism", 0))):
            pod, made = _pod(workload, number, templates)
            pods.append(pod)
            claims += made
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


def named_by_plan(given: Scenario) -> dict[str, str]:
    """Names of pods by the names that a plan has for them: those of workloads are not made yet."""
    found = {pod["metadata"]["name"]: pod["metadata"]["name"] for pod in given.pods}
    for workload in given.objects:
        owner, spec = workload["metadata"]["name"], workload.get("spec", {})
        for number in range(spec.get("replicas", spec.get("parallelism", 0)) if "template" in spec else 0):
            job = workload["kind"] == "Job"
            found[f"{owner}-{number}-{number}" if job else f"{owner}-{number}"] = f"{owner}-{number}"
    return found


async def left_unbound(
    made: ProvisioningPlan, given: Scenario, cluster: FleetCluster, *, nominated: bool
) -> dict[str, str]:
    """Planned pods that the scheduler binds nowhere, with where they should be and what is said of them.

    ``nominated``: pods are told where to go, and planned nodes are kept for them, as the autoscaler does it.
    """
    names = named_by_plan(given)
    seats = [*made.existing, *(seat for machine in made.machines for seat in machine.seats)]
    places = {names[seat.pod.name]: seat.node for seat in seats if seat.pod.name in names}
    objects = objects_of(made, given, cluster, places if nominated else {}, reserved=nominated)
    async with world(*objects, features=FEATURES) as running:
        loop = asyncio.get_running_loop()
        began = loop.time()
        quiet_since, bound = began, 0
        while not places.keys() <= dict(running.client.bound).keys():
            now = loop.time()
            if len(running.client.bound) != bound:
                quiet_since, bound = now, len(running.client.bound)
            if now - quiet_since > (_QUIET_SECONDS if bound or _told(running) else _PATIENCE_SECONDS):
                break
            await asyncio.sleep(0.002)
        left = sorted(places.keys() - dict(running.client.bound).keys())
        return {name: f"planned on {places[name]}: {_condition(running, name)}" for name in left}


def _told(running: World) -> bool:
    """Whether the scheduler has said anything of any pod."""
    pods = [tree for (kind, _, _), tree in running.client.objects.items() if kind == PODS]
    return any(pod.get("status", {}).get("conditions") for pod in pods)


def _condition(running: World, name: str) -> Any:
    return running.client.objects[PODS, NAMESPACE, name].get("status", {}).get("conditions")


def objects_of(
    made: ProvisioningPlan, given: Scenario, cluster: FleetCluster, places: dict[str, str], *, reserved: bool
) -> _Objects:  # fmt: skip
    """All that the scheduler is to see: the machines of a plan as they really come, and the pods told where to go.

    ``reserved``: planned nodes are for those only who were planned for them.
    """
    types = {one.key: one for one in given.catalog}
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
    pods, claims = pods_and_claims(given)
    names = named_by_plan(given)
    # Whoever knows of gangs does not let a part of one start; and of some pods nobody can know what they will take.
    held = {names[one.pod.name] for one in made.unserved if one.code in ("gang", "run-time-only")}
    pods = [pod for pod in pods if pod["metadata"]["name"] not in held]
    for pod in pods:
        node = places.get(pod["metadata"]["name"], "")
        if not pod["spec"].get("nodeName"):
            pod["status"] = {**pod["status"], "nominatedNodeName": node}
        if reserved and any(machine.node == node for machine in made.machines):
            mine = {"key": RESERVED, "operator": "Equal", "value": node, "effect": "NoSchedule"}
            pod["spec"] = {**pod["spec"], "tolerations": [*pod["spec"].get("tolerations", ()), mine]}
    by_kind = {"ResourceSlice": SLICES, "DeviceClass": DEVICE_CLASSES}
    others: Sequence[tuple[Resource, Tree]] = [
        (by_kind[one["kind"]], one) for one in given.objects if one["kind"] in by_kind
    ]
    return [
        (NAMESPACES, _NAMESPACE),
        *((NODES, tree) for tree in nodes),
        *((SLICES, to_tree(one, "resource.k8s.io/v1", "ResourceSlice")) for one in slices),
        *((DEVICE_CLASSES, to_tree(one, "resource.k8s.io/v1", "DeviceClass")) for one in classes()),
        *others,
        *((CLAIMS, to_tree(one, "resource.k8s.io/v1", "ResourceClaim")) for one in values_of(claims)),
        *((PODS, pod) for pod in (*_daemon_pods(given, nodes), *pods)),
    ]


def _daemon_pods(given: Scenario, nodes: Sequence[Tree]) -> Iterable[Tree]:
    """Daemons here tolerate everything, so that one is on every node."""
    for daemon in (one for one in given.objects if one["kind"] == "DaemonSet"):
        template = daemon["spec"]["template"]
        for node in nodes:
            name = node["metadata"]["name"]
            metadata = {"name": f"daemon-{name}", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
            spec = {**template["spec"], "nodeName": name}
            yield {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
