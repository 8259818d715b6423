"""Themes about devices: what they publish, and what claims request of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.generate import new_scenario
from tests.kube.differential.scenarios.generator import CONSTRAINED, DRIVERS, LANE, NUMA, TAINT, ScenarioGenerator
from tests.kube.differential.scenarios.pods import only_on
from tests.kube.differential.scenarios.scenario import READY, Scenario

_STEPS: Final = (
    {"default": "4", "validRange": {"min": "2", "step": "2", "max": "4"}},
    {"default": "1", "validRange": {"min": "1", "step": "3", "max": "4"}},
    {"default": "500m", "validRange": {"min": "250m", "step": "250m"}},
    {"default": "2", "validValues": ["1", "2", "3"]},
    {"default": "1500m", "validValues": ["500m", "1500m"]},
    {"default": "0", "validRange": {"min": "0", "max": "4"}},
)


def lists(generator: ScenarioGenerator) -> Scenario:
    """List attributes, in selectors and constraints."""
    random = generator.random
    generator.requests, generator.constraints, generator.all_attributes = (1, 1, 2), CONSTRAINED, True
    scenario = new_scenario(generator)
    for device in devices_of(scenario):
        for key, (field, values) in _LISTS.items():
            if key in device.get("attributes", {}) and generator.chance(0.6):
                chosen = random.choices(values, k=random.choice([1, 2, 2, 3]))
                device["attributes"][key] = {field: list(dict.fromkeys(chosen))}
    for request in requests_of(scenario):
        if generator.chance(0.4):
            driver = random.choice(generator.drivers)
            selector = random.choice(_INCLUDES).replace("$", f'device.attributes["{driver}"]')
            if generator.chance(0.8):
                selector = f'device.driver == "{driver}" && {selector}'
            request["selectors"] = [{"cel": {"expression": selector}}]
    return scenario


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


def counters(generator: ScenarioGenerator) -> Scenario:
    """Partitions whose counters are in several slices, of which a device consumes two; with taints and constraints."""
    generator.partitioned, generator.constraints = True, CONSTRAINED
    scenario = new_scenario(generator)
    cut: list[Tree] = []
    for slice_ in scenario.of_kind("ResourceSlice"):
        sets = slice_["spec"].get("sharedCounters") or ()
        if len(sets) < 2:
            continue
        consumed = [
            item for item in scenario.of_kind("ResourceSlice") if item["spec"]["pool"] == slice_["spec"]["pool"]
        ]
        for device in (device for item in consumed for device in item["spec"].get("devices") or ()):
            if device.get("consumesCounters") and generator.chance(0.3):
                other = next(set for set in sets if set["name"] != device["consumesCounters"][0]["counterSet"])
                device["consumesCounters"].append(
                    {"counterSet": other["name"], "counters": {"memory": {"value": "5Gi"}}}
                )
        if generator.chance(0.7):
            slice_["spec"]["sharedCounters"], rest = sets[:1], sets[1:]
            metadata = {"name": f"{slice_['metadata']['name']}-more"}
            cut.append({**slice_, "metadata": metadata, "spec": {**slice_["spec"], "sharedCounters": rest}})
            consumed.append(cut[-1])
            count = slice_["spec"]["pool"]["resourceSliceCount"] + 1
            for item in consumed:
                item["spec"]["pool"] = {**item["spec"]["pool"], "resourceSliceCount": count}
    scenario.cluster[:] = [
        *scenario.of_kind("Node"),
        *cut,
        *(item for item in scenario.cluster if item["kind"] != "Node"),
    ]
    return scenario


def same_pools(generator: ScenarioGenerator) -> Scenario:
    """Two drivers with pools and counter sets of the same names."""
    generator.drivers = generator.random.sample(DRIVERS, 2)
    generator.classes = [
        generator.classes[0],
        *(f"{generator.name}-{generator.prefix(driver)}" for driver in generator.drivers),
    ]
    generator.partitioned = True
    scenario = new_scenario(generator)
    for slice_ in scenario.of_kind("ResourceSlice"):
        spec = slice_["spec"]
        spec["pool"]["name"] = spec["pool"]["name"].rpartition("-")[0]
        used = [counter for device in spec.get("devices") or () for counter in device.get("consumesCounters") or ()]
        for item in used:
            item["counterSet"] = f"card{item['counterSet'][-1]}"
        for counter in spec.get("sharedCounters") or ():
            counter["name"] = f"card{counter['name'][-1]}"
    return scenario


def shares(generator: ScenarioGenerator) -> Scenario:
    """Devices with consumable capacity and request policies, and requests for several of their capacities."""
    random = generator.random
    generator.shareable, generator.constraints = True, CONSTRAINED
    scenario = new_scenario(generator)
    for device in devices_of(scenario):
        if generator.chance(0.7):
            device["allowMultipleAllocations"] = True
            device["capacity"]["lanes"] = {"value": random.choice(["4", "7", "8"])}
            if generator.chance(0.8):
                device["capacity"]["lanes"]["requestPolicy"] = dict(random.choice(_STEPS))
    for request in requests_of(scenario):
        if generator.chance(0.5):
            requested = request.setdefault("capacity", {}).setdefault("requests", {})
            requested["lanes"] = random.choice(["0", "1", "1", "2", "3", "300m", "1500m", "5", "9"])
    return scenario


def taints(generator: ScenarioGenerator) -> Scenario:
    """Taints by drivers and by several rules, with tolerations with and without a time limit."""
    random = generator.random
    scenario = new_scenario(generator)
    effects = ["NoSchedule", "NoExecute", "NoExecute", "None"]
    for device in devices_of(scenario):
        if generator.chance(0.3):
            keys = random.sample([TAINT["key"], "example.com/hot"], random.choice([1, 1, 2]))
            device["taints"] = [
                {"key": key, "effect": random.choice(effects), **({"value": "yes"} if generator.chance(0.7) else {})}
                for key in keys
            ]
    rules = scenario.of_kind("DeviceTaintRule")
    for number, rule in enumerate(rules * 3 if rules else ()):
        selector = random.choice(
            [{"driver": random.choice(generator.drivers)}, {"device": random.choice(["d0", "d1"])}]
        )
        taint = {"key": random.choice([TAINT["key"], "example.com/hot"]), "effect": random.choice(effects)}
        metadata = {"name": f"{rule['metadata']['name']}{number}"}
        scenario.cluster.append({**rule, "metadata": metadata, "spec": {"taint": taint, "deviceSelector": selector}})
    for request in requests_of(scenario):
        if generator.chance(0.6):
            request["tolerations"] = [_toleration(generator) for _ in range(random.choice([1, 1, 2, 3]))]
    return scenario


def _toleration(generator: ScenarioGenerator) -> Tree:
    random = generator.random
    found: Tree = {"operator": "Exists"}
    if generator.chance(0.8):
        found["key"] = random.choice([TAINT["key"], "example.com/hot"])
        if generator.chance(0.4):
            found |= {"operator": "Equal", "value": random.choice(["yes", "yes", ""])}
    if generator.chance(0.6):
        found["effect"] = random.choice(["NoExecute", "NoExecute", "NoSchedule"])
        if found["effect"] == "NoExecute" and generator.chance(0.6):
            found["tolerationSeconds"] = random.choice([0, 60, 3600])
    return found


def readiness(generator: ScenarioGenerator) -> Scenario:
    """Devices with binding conditions, which may fail."""
    random = generator.random
    generator.crowded = False
    scenario = new_scenario(generator)
    for device in devices_of(scenario):
        if generator.chance(0.6):
            device["bindingConditions"] = [READY] if generator.chance(0.8) else ["example.com/never"]
            device["bindingFailureConditions"] = ["example.com/failed"]
            if generator.chance(0.3):
                device["bindsToNode"] = True
    for pod in scenario.pods:  # a device that failed on one node may become ready on another
        required = {"nodeSelectorTerms": [only_on(random.choice(generator.nodes))]}
        pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return Scenario(
        scenario.cluster, scenario.pods[: random.choice([2, 3])]
    )  # kube-scheduler checks every five seconds


def devices_of(scenario: Scenario) -> Iterator[Tree]:
    for slice_ in scenario.of_kind("ResourceSlice"):
        yield from slice_["spec"].get("devices") or ()


def requests_of(scenario: Scenario) -> Iterator[Tree]:
    """Every request and every subrequest."""
    for item in scenario.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        spec = item["spec"].get("spec") or item["spec"]
        for request in spec["devices"]["requests"]:
            yield from request.get("firstAvailable") or [request["exactly"]]
