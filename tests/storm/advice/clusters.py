"""Random clusters: machines of several kinds, tenants whose pods hold devices, and nodes in all states."""

from __future__ import annotations

from random import Random
from typing import Final

from allotment.model.trees import Tree
from tests.storm.advice.holders import holder, holder_name, placed, released, tenant
from tests.storm.advice.machines import KINDS, MachineKind, device_classes, devices, machine
from tests.storm.advice.requests import STYLES, gpu_request, pending_objects
from tests.storm.advice.worlds import NAMESPACE, Noise, World, set_admin_access, slices_of

#: Nodes of a cluster at most, unless a test expects fewer.
MAX_NODES: Final = 8
#: The taint of nodes that are for other pods, that of devices which are repaired, and that of a node that is not ready.
NODE_TAINT: Final[Tree] = {"key": "example.com/dedicated", "value": "infra", "effect": "NoSchedule"}
DEVICE_TAINT: Final[Tree] = {"key": "example.com/repair", "value": "ecc", "effect": "NoSchedule"}
NOT_READY: Final[Tree] = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
CORDONED: Final[Tree] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_NOISE: Final = ("cordon", "taint", "not-ready", "pool")


def random_world(random: Random, style: str, most: int = MAX_NODES) -> World:
    """A world of at most ``most`` nodes in which the pod would probably fit, with a request of this style."""
    kind = random.choice([kind for kind in KINDS if kind.form in STYLES[style].forms])
    others = [other for other in KINDS if other.form != "share" or kind.form in ("share", "mig")]
    chosen = [kind, *random.sample(others, random.randint(0, min(3, most - 1)))]
    count = random.randint(max(2, len(chosen)), most if len(chosen) > 1 else min(4, most))
    kinds = [*chosen, *(random.choice(chosen) for _ in range(count - len(chosen)))]
    random.shuffle(kinds)
    names = {f"node-{number}": of for number, of in enumerate(kinds, start=1)}
    trees: list[Tree] = [_namespace(NAMESPACE), *(_namespace(tenant(number)) for number in (1, 2))]
    trees += device_classes()
    for name, of in names.items():
        trees += machine(of, name)
    world = World(tuple(trees), pending_objects(random, style, kind), pool=kind.pool)
    if style == "admin":
        set_admin_access(world, allowed=True)
    world = _with_tenants(random, world, names)
    return _with_noise(random, world, list(names))


def _namespace(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {}, "uid": f"uid-{name}"}}


def _with_tenants(random: Random, world: World, names: dict[str, MachineKind]) -> World:
    """The world with pods of one to three tenants."""
    holders = []
    for number in range(random.randint(0, 5)):
        namespace = tenant(random.randint(0, 2))
        node = random.choice(list(names))
        if devices(names[node]):
            spec = gpu_request(names[node])
            holders.append(holder(holder_name(number, namespace), namespace, spec, node))
    return placed(world, holders)


def _with_noise(random: Random, world: World, names: list[str]) -> World:
    """The world with some nodes in a state in which they take no pods, and a pool that is incomplete."""
    chosen = random.sample(names, random.randint(0, max(0, min(3, len(names) - 1))))
    noise = tuple(Noise(random.choice(_NOISE), name) for name in chosen)
    world = world.copy()
    for kind, name in noise:
        if kind == "pool":
            set_slice_count(world, name, 1)
        else:
            set_node_state(world, name, kind)
    return world._replace(noise=noise)


def set_node_state(world: World, name: str, state: str) -> None:
    """Cordon or taint a node, make it not ready, or make it usable with an empty ``state``."""
    for tree in world.of_kind("Node"):
        if tree["metadata"]["name"] != name:
            continue
        taints = {"cordon": [CORDONED], "taint": [NODE_TAINT], "not-ready": [NOT_READY]}.get(state, [])
        tree["spec"] = {"taints": [dict(taint) for taint in taints]}
        if state == "cordon":
            tree["spec"]["unschedulable"] = True
        ready = "False" if state == "not-ready" else "True"
        tree["status"] = {**tree["status"], "conditions": [{"type": "Ready", "status": ready}]}


def set_slice_count(world: World, name: str, missing: int) -> None:
    """Announce ``missing`` more slices than the driver on a node has published."""
    found = slices_of(world, name)
    for tree in found:
        tree["spec"]["pool"]["resourceSliceCount"] = len(found) + missing


def without_noise(world: World) -> World:
    """The world with all nodes and pools of its noise in order."""
    world = world.copy()
    for kind, name in world.noise:
        if kind == "pool":
            set_slice_count(world, name, 0)
        else:
            set_node_state(world, name, "")
    return world


def idle(world: World) -> World:
    """The world without noise and without pods that hold devices."""
    return released(without_noise(world))
