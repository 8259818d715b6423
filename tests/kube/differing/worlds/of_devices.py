"""Themes that are about devices: what they publish, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from allotment.model.trees import Tree
from tests.kube.differing.worlds.drawing import CONSTRAINED, DRIVERS, LANE, NUMA, TAINT, Drawing
from tests.kube.differing.worlds.pods import only_on
from tests.kube.differing.worlds.whole import new_world
from tests.kube.differing.worlds.world import READY, World

_STEPS: Final = (
    {"default": "4", "validRange": {"min": "2", "step": "2", "max": "4"}},
    {"default": "1", "validRange": {"min": "1", "step": "3", "max": "4"}},
    {"default": "500m", "validRange": {"min": "250m", "step": "250m"}},
    {"default": "2", "validValues": ["1", "2", "3"]},
    {"default": "1500m", "validValues": ["500m", "1500m"]},
    {"default": "0", "validRange": {"min": "0", "max": "4"}},
)


def lists(drawing: Drawing) -> World:
    """Attributes that are lists, in selectors and constraints."""
    random = drawing.random
    drawing.requests, drawing.constraints, drawing.whole = (1, 1, 2), CONSTRAINED, True
    world = new_world(drawing)
    for device in _devices(world):
        for key, (field, values) in _LISTS.items():
            if key in device.get("attributes", {}) and drawing.chance(0.6):
                chosen = random.choices(values, k=random.choice([1, 2, 2, 3]))
                device["attributes"][key] = {field: list(dict.fromkeys(chosen))}
    for request in _requests(world):
        if drawing.chance(0.4):
            driver = random.choice(drawing.drivers)
            selector = random.choice(_INCLUDES).replace("$", f'device.attributes["{driver}"]')
            if drawing.chance(0.8):
                selector = f'device.driver == "{driver}" && {selector}'
            request["selectors"] = [{"cel": {"expression": selector}}]
    return world


_LISTS: Final[Mapping[str, tuple[str, list[object]]]] = MappingProxyType({
    "model": ("strings", ["a", "b", "c"]), "cores": ("ints", [0, 2, 4]), "healthy": ("bools", [True, False]),
    "firmware": ("versions", ["1.0.0", "1.2.0", "2.0.0-rc.1"]), NUMA: ("ints", [0, 1, 2]),
    LANE: ("strings", ["x", "y", "z"]),
})  # fmt: skip
_INCLUDES: Final = (
    '$.model.includes("a")', '"model" in $ && $.model.includes("b")', "$.cores.includes(2)",
    'device.attributes["example.org"].lane.includes("x")', "$.healthy.includes(true)", "$.model.size() == 2",
    'has($.model) && type($.model) == list && $.model.exists(m, m == "a")', '$.?cores.hasValue()', "$.cores[0] == 2",
    '$.firmware.includes(semver("1.2.0"))', '"a" in $.model', '$.model == ["a", "b"]',
    'device.attributes["resource.kubernetes.io"].numaNode.includes(1)', '$.model.all(m, m in ["a", "b"])',
)  # fmt: skip


def counters(drawing: Drawing) -> World:
    """Partitions whose counters are in several slices, of which a device takes from two; taints and constraints too."""
    drawing.partitioned, drawing.constraints = True, CONSTRAINED
    world = new_world(drawing)
    cut: list[Tree] = []
    for slice_ in world.of("ResourceSlice"):
        sets = slice_["spec"].get("sharedCounters") or ()
        if len(sets) < 2:
            continue
        mine = [one for one in world.of("ResourceSlice") if one["spec"]["pool"] == slice_["spec"]["pool"]]
        for device in (device for one in mine for device in one["spec"].get("devices") or ()):
            if device.get("consumesCounters") and drawing.chance(0.3):
                other = next(one for one in sets if one["name"] != device["consumesCounters"][0]["counterSet"])
                device["consumesCounters"].append(
                    {"counterSet": other["name"], "counters": {"memory": {"value": "5Gi"}}}
                )
        if drawing.chance(0.7):
            slice_["spec"]["sharedCounters"], rest = sets[:1], sets[1:]
            metadata = {"name": f"{slice_['metadata']['name']}-more"}
            cut.append({**slice_, "metadata": metadata, "spec": {**slice_["spec"], "sharedCounters": rest}})
            mine.append(cut[-1])
            count = slice_["spec"]["pool"]["resourceSliceCount"] + 1
            for one in mine:
                one["spec"]["pool"] = {**one["spec"]["pool"], "resourceSliceCount": count}
    world.cluster[:] = [*world.of("Node"), *cut, *(one for one in world.cluster if one["kind"] != "Node")]
    return world


def same_pools(drawing: Drawing) -> World:
    """Two drivers whose pools have the same names, and counter sets."""
    drawing.drivers = drawing.random.sample(DRIVERS, 2)
    drawing.classes = [drawing.classes[0], *(f"{drawing.name}-{drawing.prefix(one)}" for one in drawing.drivers)]
    drawing.partitioned = True
    world = new_world(drawing)
    for slice_ in world.of("ResourceSlice"):
        spec = slice_["spec"]
        spec["pool"]["name"] = spec["pool"]["name"].rpartition("-")[0]
        used = [one for device in spec.get("devices") or () for one in device.get("consumesCounters") or ()]
        for one in used:
            one["counterSet"] = f"card{one['counterSet'][-1]}"
        for one in spec.get("sharedCounters") or ():
            one["name"] = f"card{one['name'][-1]}"
    return world


def shares(drawing: Drawing) -> World:
    """Devices that many use, each so much in steps, and requests for several of their capacities."""
    random = drawing.random
    drawing.shareable, drawing.constraints = True, CONSTRAINED
    world = new_world(drawing)
    for device in _devices(world):
        if drawing.chance(0.7):
            device["allowMultipleAllocations"] = True
            device["capacity"]["lanes"] = {"value": random.choice(["4", "7", "8"])}
            if drawing.chance(0.8):
                device["capacity"]["lanes"]["requestPolicy"] = dict(random.choice(_STEPS))
    for request in _requests(world):
        if drawing.chance(0.5):
            asked = request.setdefault("capacity", {}).setdefault("requests", {})
            asked["lanes"] = random.choice(["0", "1", "1", "2", "3", "300m", "1500m", "5", "9"])
    return world


def taints(drawing: Drawing) -> World:
    """Taints by drivers and by several rules, and who tolerates them, for a while or for ever."""
    random = drawing.random
    world = new_world(drawing)
    effects = ["NoSchedule", "NoExecute", "NoExecute", "None"]
    for device in _devices(world):
        if drawing.chance(0.3):
            keys = random.sample([TAINT["key"], "example.com/hot"], random.choice([1, 1, 2]))
            device["taints"] = [
                {"key": key, "effect": random.choice(effects), **({"value": "yes"} if drawing.chance(0.7) else {})}
                for key in keys
            ]
    rules = world.of("DeviceTaintRule")
    for number, rule in enumerate(rules * 3 if rules else ()):
        selector = random.choice([{"driver": random.choice(drawing.drivers)}, {"device": random.choice(["d0", "d1"])}])
        taint = {"key": random.choice([TAINT["key"], "example.com/hot"]), "effect": random.choice(effects)}
        metadata = {"name": f"{rule['metadata']['name']}{number}"}
        world.cluster.append({**rule, "metadata": metadata, "spec": {"taint": taint, "deviceSelector": selector}})
    for request in _requests(world):
        if drawing.chance(0.6):
            request["tolerations"] = [_toleration(drawing) for _ in range(random.choice([1, 1, 2, 3]))]
    return world


def _toleration(drawing: Drawing) -> Tree:
    random = drawing.random
    found: Tree = {"operator": "Exists"}
    if drawing.chance(0.8):
        found["key"] = random.choice([TAINT["key"], "example.com/hot"])
        if drawing.chance(0.4):
            found |= {"operator": "Equal", "value": random.choice(["yes", "yes", ""])}
    if drawing.chance(0.6):
        found["effect"] = random.choice(["NoExecute", "NoExecute", "NoSchedule"])
        if found["effect"] == "NoExecute" and drawing.chance(0.6):
            found["tolerationSeconds"] = random.choice([0, 60, 3600])
    return found


def readiness(drawing: Drawing) -> World:
    """Devices that have to be made ready first, which may fail."""
    random = drawing.random
    drawing.crowded = False
    world = new_world(drawing)
    for device in _devices(world):
        if drawing.chance(0.6):
            device["bindingConditions"] = [READY] if drawing.chance(0.8) else ["example.com/never"]
            device["bindingFailureConditions"] = ["example.com/failed"]
            if drawing.chance(0.3):
                device["bindsToNode"] = True
    for pod in world.pods:  # what has failed on one node may be ready on another
        required = {"nodeSelectorTerms": [only_on(random.choice(drawing.nodes))]}
        pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return World(world.cluster, world.pods[: random.choice([2, 3])])  # kube-scheduler looks every five seconds


def _devices(world: World) -> Iterator[Tree]:
    for slice_ in world.of("ResourceSlice"):
        yield from slice_["spec"].get("devices") or ()


def _requests(world: World) -> Iterator[Tree]:
    """Every request, and every alternative of one."""
    for one in world.of("ResourceClaim", "ResourceClaimTemplate"):
        spec = one["spec"].get("spec") or one["spec"]
        for request in spec["devices"]["requests"]:
            yield from request.get("firstAvailable") or [request["exactly"]]
