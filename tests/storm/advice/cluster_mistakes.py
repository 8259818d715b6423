"""States of the cluster that keep a valid pod pending: nodes, taints, pools, and devices that others hold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from allotment.model.trees import Tree
from tests.storm.advice.clusters import DEVICE_TAINT, set_node_state, set_slice_count
from tests.storm.advice.explanations import place_of
from tests.storm.advice.holders import held_devices, holder, placed, tenant
from tests.storm.advice.machines import GPU, KINDS, MIG, POOL_LABEL, MachineKind, devices, memory
from tests.storm.advice.mistake import Mistake, Plant
from tests.storm.advice.requests import STYLES, claim, gpu_request
from tests.storm.advice.worlds import CLAIM, ENTRY, NAMESPACE, Inapplicable, World, slices_of

#: More nodes than this are never in a world.
_MAX_ROUNDS: Final = 9


def _on_every_fitting_node(change: Callable[[Random, World, str], World | None]) -> Plant:
    """A state of each node on which the pod would fit, one after the other."""

    def plant(random: Random, world: World) -> World:
        changed = False
        for _ in range(_MAX_ROUNDS):
            place = place_of(world)
            if place is None:
                if not changed:
                    raise Inapplicable
                return world
            after = change(random, world, place.node) if place.node else None
            if after is None:
                raise Inapplicable
            world, changed = after, True
        raise Inapplicable

    return plant


def _state(state: str) -> Plant:
    def change(random: Random, world: World, node: str) -> World:
        set_node_state(world, node, state)
        return world

    return _on_every_fitting_node(change)


def _tainted_devices(random: Random, world: World, node: str) -> World:
    for tree in slices_of(world, node):
        if "devices" in tree["spec"]:
            tree["spec"]["devices"] = [{**device, "taints": [dict(DEVICE_TAINT)]} for device in tree["spec"]["devices"]]
    return world


def _incomplete_pool(random: Random, world: World, node: str) -> World:
    set_slice_count(world, node, random.choice([1, 1, 2]))
    return world


def _without_slices(random: Random, world: World, node: str) -> World:
    gone = slices_of(world, node)
    return world._replace(cluster=tuple(tree for tree in world.cluster if tree not in gone))


def _kind_of(world: World, node: str) -> MachineKind:
    labels = next(t["metadata"]["labels"] for t in world.of_kind("Node") if t["metadata"]["name"] == node)
    return next(kind for kind in KINDS if kind.pool == labels[POOL_LABEL])


def _held(owner: str, phase: str = "Running") -> Plant:
    """Devices of fitting nodes that other pods hold: of ``other`` tenants, or of the pod's ``own`` namespace."""

    def change(random: Random, world: World, node: str) -> World | None:
        kind = _kind_of(world, node)
        number = len(held_devices(world)) + 10
        namespace = NAMESPACE if owner == "own" else tenant(random.randint(1, 2))
        names = [f"{'batch' if owner == 'own' else 'secret-run'}-{number + at}" for at in range(len(devices(kind)))]
        holders = [holder(name, namespace, gpu_request(kind), node) for name in names]
        after = placed(world, holders, phase=phase)
        return after if len(after.cluster) > len(world.cluster) else None

    return _on_every_fitting_node(change)


def _partitioned(random: Random, world: World, node: str) -> World | None:
    """A partition or the whole GPU in use, so that the counters do not suffice for the request."""
    kind = _kind_of(world, node)
    if kind.form != "dynamic":
        return None
    number = len(held_devices(world)) + 10
    namespace = random.choice([NAMESPACE, tenant(1)])
    exactly: Tree = {"deviceClassName": random.choice([GPU, MIG]), "allocationMode": "ExactCount", "count": 1}
    if exactly["deviceClassName"] == MIG:
        largest = max(devices(kind), key=memory)["attributes"]["profile"]["string"]
        expression = f'device.attributes["{GPU}"].profile == "{largest}"'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    name = f"{'notebook' if namespace == NAMESPACE else 'secret-part'}-{number}"
    after = placed(world, [holder(name, namespace, spec, node)])
    return after if len(after.cluster) > len(world.cluster) else None


def _shared_out(random: Random, world: World, node: str) -> World | None:
    """Shares in use, so that less memory is left than requested."""
    kind = _kind_of(world, node)
    if kind.form != "share":
        return None
    number = len(held_devices(world)) + 10
    spec = gpu_request(kind)
    gib = memory(devices(kind)[0]) // (1 << 30)
    spec["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"] = f"{gib - random.randint(1, 3)}Gi"
    namespace = random.choice([NAMESPACE, tenant(2)])
    name = f"{'notebook' if namespace == NAMESPACE else 'secret-share'}-{number}"
    after = placed(world, [holder(name, namespace, spec, node)])
    return after if len(after.cluster) > len(world.cluster) else None


def _claim_elsewhere(random: Random, world: World) -> World:
    """The pod's claim is allocated for another pod on a node that the pod's nodeSelector excludes."""
    place = place_of(world)
    owner = world.request_owner
    entries = world.pod["spec"].get("resourceClaims") or [{}]
    if place is None or owner is None or "resourceClaimName" not in entries[0]:
        raise Inapplicable
    pools = {tree["metadata"]["labels"][POOL_LABEL] for tree in world.of_kind("Node")}
    others = sorted(pools - {_kind_of(world, place.node).pool})
    if not others:
        raise Inapplicable
    made = claim(CLAIM, world.claim_spec)
    user = holder("evaluator", NAMESPACE, made["spec"])
    user.pod["spec"]["resourceClaims"] = [{"name": ENTRY, "resourceClaimName": CLAIM}]
    user.pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": ENTRY}]
    user.claim["metadata"] |= {"name": CLAIM, "uid": f"uid-{CLAIM}"}
    after = placed(world, [user])
    if len(after.cluster) == len(world.cluster):
        raise Inapplicable
    after.pod["spec"]["nodeSelector"] = {POOL_LABEL: random.choice(others)}
    return after._replace(own=(after.pod,))


_ALL: Final = frozenset(STYLES)
_NODE: Final = frozenset({"node-not-eligible"})
#: Partitions that are in use also consume counters of the others.
_IN_USE: Final = frozenset({"devices-in-use", "counters-exhausted"})
_WHOLE: Final = _ALL - {"amount", "admin"}
_WAIT: Final = frozenset({"wait"})
#: The same model in another pool is nearer than the end of a repair.
_REPAIR: Final = frozenset({"recover", "select"})

CLUSTER_MISTAKES: Final = (
    Mistake("fitting nodes cordoned", _ALL, _state("cordon"), _NODE, frozenset({"uncordon"}), only_noise=True),
    Mistake("fitting nodes tainted", _ALL, _state("taint"), _NODE, frozenset({"tolerate-node"})),
    Mistake("fitting nodes not ready", _ALL, _state("not-ready"), _NODE, _REPAIR),
    Mistake(
        "devices tainted", _ALL - {"extended"}, _on_every_fitting_node(_tainted_devices),
        frozenset({"devices-tainted"}), frozenset({"tolerate-device"}),
    ),
    Mistake(
        "pools incomplete", _ALL - {"all"}, _on_every_fitting_node(_incomplete_pool), frozenset({"pool-incomplete"}),
        frozenset({"driver"}),
    ),
    Mistake(
        "fitting nodes without slices", _ALL, _on_every_fitting_node(_without_slices),
        frozenset(
            {
                "driver-missing", "unknown-driver", "class-matches-nothing", "selector-matches-nothing",
                "not-enough-capacity",
            }
        ),
        frozenset(),
    ),
    Mistake("held by other tenants", _WHOLE, _held("other"), _IN_USE, _WAIT, only_noise=True),
    Mistake("held by own pods", _WHOLE, _held("own"), _IN_USE, _WAIT, only_noise=True),
    Mistake("held by finished pods", _WHOLE, _held("own", "Succeeded"), _IN_USE, _WAIT, only_noise=True),
    Mistake(
        "counters used by partitions", frozenset({"profile", "memory"}), _on_every_fitting_node(_partitioned),
        frozenset({"counters-exhausted", "devices-in-use"}), _WAIT, only_noise=True,
    ),
    Mistake(
        "shares used by others", frozenset({"amount"}), _on_every_fitting_node(_shared_out),
        _IN_USE | {"capacity-in-use"}, _WAIT | {"less", "smaller-share"}, only_noise=True,
    ),
    Mistake(
        "claim allocated on another node", _ALL - {"extended", "admin"}, _claim_elsewhere,
        frozenset({"claim-on-other-node", "node-not-eligible"}),
        frozenset({"select", "select-model", "select-less", "uncordon", "tolerate-node", "wait", "recover"}),
        only_noise=True, alone=True, changes_devices=True,
    ),
)  # fmt: skip
