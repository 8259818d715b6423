"""Themes about fields that are new in Kubernetes 1.37, with the feature gate that each needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.device_themes import devices_of, requests_of
from tests.kube.differential.scenarios.generate import new_scenario
from tests.kube.differential.scenarios.generator import LANE, NUMA, ScenarioGenerator
from tests.kube.differential.scenarios.scenario import Scenario

_NAMES: Final = ("derived.example.com/group", "derived.example.com/group", NUMA, LANE)
#: Expressions that every device can evaluate if all publish all attributes; ``$`` stands for those of the driver.
_COMMON: Final = (
    'device.attributes["resource.kubernetes.io"].numaNode', 'device.attributes["resource.kubernetes.io"].numaNode / 2',
    'device.attributes["resource.kubernetes.io"].numaNode == 0', 'device.attributes["example.org"].lane',
    'device.attributes["example.org"].lane + "1"', '[device.attributes["example.org"].lane]', "device.driver", "1",
    "0", '"x"', '["x", "y"]', '["x"].filter(lane, lane == "y")', '$.?model.orValue("b")', "$.?cores.orValue(2) > 2",
)  # fmt: skip
_OF_DRIVER: Final = (
    "$.model", "$.cores", "$.cores / 4", "$.cores > 2", "$.healthy", "$.firmware", "$.model.startsWith('a')",
    "[$.model]", "[$.cores]", '$.model == "a" ? 0 : $.cores',
)  # fmt: skip


def derived(generator: ScenarioGenerator) -> Scenario:
    """Derived attributes in requests and alternatives, and constraints on them; some have the name of an attribute that
    devices publish."""
    random = generator.random
    generator.requests, generator.all_attributes = (1, 2, 2), not generator.chance(0.2)
    scenario = new_scenario(generator)
    for spec in _device_claims(scenario):
        name = random.choice(_NAMES)
        defining: dict[str, None] = {}
        for request in spec["requests"]:
            for exactly in request.get("firstAvailable") or [request["exactly"]]:
                if generator.chance(0.75):
                    expression = _derived_expression(generator, exactly["deviceClassName"])
                    exactly["derivedAttributes"] = [{"name": name, "expression": expression}]
                    defining[request["name"]] = None
        if defining:
            kind = "matchAttribute" if generator.chance(0.75) else "distinctAttribute"
            among = {"requests": list(defining)} if generator.chance(0.7) else {}
            spec["constraints"] = [*(spec.get("constraints") or ())[: random.choice([0, 0, 1])], {kind: name, **among}]
    return scenario


def _derived_expression(generator: ScenarioGenerator, class_name: str) -> str:
    of_class = [driver for driver in generator.drivers if class_name.endswith(generator.prefix(driver))]
    expressions = _OF_DRIVER if of_class and generator.chance(0.6) else _COMMON
    driver = generator.random.choice(of_class or generator.drivers)
    return generator.random.choice(expressions).replace("$", f'device.attributes["{driver}"]')


def compatibility(generator: ScenarioGenerator) -> Scenario:
    """Devices that consume the same counters, some of which may not be used at the same time."""
    random = generator.random
    generator.partitioned, generator.crowded = True, generator.chance(0.6)
    scenario = new_scenario(generator)
    for device in devices_of(scenario):
        for consumption in device.get("consumesCounters") or ():
            if generator.chance(0.8):
                consumption["compatibilityGroups"] = random.sample(["mig", "vgpu", "any"], random.choice([1, 1, 2]))
    return scenario


#: Request policies in thousandths.
_FRACTIONS: Final = (
    {"default": "500m", "validRange": {"min": "250m", "step": "250m"}},
    {"default": "1500m", "validRange": {"min": "500m", "step": "500m", "max": "3500m"}},
    {"default": "100m", "validRange": {"min": "100m", "max": "2500m"}},
    {"default": "300m", "validRange": {"min": "0", "step": "300m", "max": "3"}},
    {"default": "1001m", "validRange": {"min": "1001m", "step": "1m"}},
    {"default": "500m", "validValues": ["500m", "1", "1500m"]},
    {"default": "2", "validRange": {"min": "1", "step": "1", "max": "4"}},
)


def fractions(generator: ScenarioGenerator) -> Scenario:
    """Shared devices with ranges in thousandths, and requests that are rounded up or cannot be represented."""
    random = generator.random
    generator.shareable = True
    scenario = new_scenario(generator)
    for device in devices_of(scenario):
        device["allowMultipleAllocations"] = True
        value = random.choice(["4", "5500m", "7"])
        device["capacity"]["lanes"] = {"value": value, "requestPolicy": dict(random.choice(_FRACTIONS))}
        if generator.chance(0.2):
            del device["capacity"]["lanes"]["requestPolicy"]
    for request in requests_of(scenario):
        if generator.chance(0.7):
            requested = request.setdefault("capacity", {}).setdefault("requests", {})
            requested["lanes"] = random.choice(
                ["0", "1m", "100m", "250m", "333m", "700m", "1", "1100m", "1500m", "2600m", "3", "0.35", "9"]
            )
            if generator.chance(0.05):
                requested["lanes"] = random.choice(["100u", "1500001u", "9223372036854775807"])
    return scenario


_SKIPS: Final = (["*"], ["NodeUnprepareResources"], ["NodePrepareResources", "NodeUnprepareResources"])


def skipped_operations(generator: ScenarioGenerator) -> Scenario:
    """Slices whose driver need not be called by the kubelet, which only some nodes support."""
    scenario = new_scenario(generator)
    for node in scenario.of_kind("Node"):
        if generator.chance(0.5):
            node["status"]["declaredFeatures"] = ["DRAOptionalNodeOperations"]
    for slice_ in scenario.of_kind("ResourceSlice"):
        if generator.chance(0.5):
            slice_["spec"]["skipNodeOperations"] = list(generator.random.choice(_SKIPS))
    return scenario


def node_resources(generator: ScenarioGenerator) -> Scenario:
    """Devices that use cpu and memory of their node."""
    random = generator.random
    generator.extended = generator.device_plugins = False
    generator.crowded = generator.chance(0.6)
    scenario = new_scenario(generator)
    for node in scenario.of_kind("Node"):
        amounts = {**node["status"]["allocatable"], "cpu": random.choice(["3", "5", "8"])}
        node["status"] = {
            "allocatable": amounts, "capacity": amounts, "declaredFeatures": ["DRANodeAllocatableResources"],
        }  # fmt: skip
    for device in devices_of(scenario):
        used: Tree = {}
        if generator.chance(0.6):
            used["cpu"] = {"mapping": {"deviceMultiplier": random.choice(["500m", "1", "2", "4"])}}
            if device.get("allowMultipleAllocations"):
                mapping = {"capacityKey": "memory", "capacityMultiplier": random.choice(["100m", "500m"])}
                used["memory"] = {"mapping": mapping}
        if generator.chance(0.5):
            overhead = random.choice(
                [{"perPod": "1Gi"}, {"perContainer": "512Mi"}, {"perPod": "100Mi", "perContainer": "2Gi"}]
            )
            used["memory"] = {**used.get("memory", {}), "overhead": overhead}
        if used:
            device["nodeAllocatableResources"] = used
    for pod in scenario.pods:
        names = [{"name": entry["name"]} for entry in pod["spec"]["resourceClaims"]]
        if names and generator.chance(0.8):
            pod["spec"]["containers"][0]["resources"]["claims"] = names
            if generator.chance(0.3):
                more = {"name": "more", "image": "i", "resources": {"claims": names[:1]}}
                pod["spec"].setdefault(random.choice(["containers", "initContainers"]), []).append(more)
    return scenario


def _device_claims(scenario: Scenario) -> Iterator[Tree]:
    """``spec.devices`` of every claim and template."""
    for item in scenario.of_kind("ResourceClaim", "ResourceClaimTemplate"):
        yield (item["spec"].get("spec") or item["spec"])["devices"]
