"""Random devices, their classes, and taint rules."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.claims import new_config
from tests.kube.differential.scenarios.generator import LANE, MODELS, NUMA, RESOURCE, TAINT, ScenarioGenerator
from tests.kube.differential.scenarios.selectors import new_selector


def new_device(generator: ScenarioGenerator, driver: str, number: int) -> Tree:
    random = generator.random
    attributes: Tree = {
        "model": {"string": random.choice(MODELS)},
        "cores": {"int": random.choice([0, 2, 4])},
        "healthy": {"bool": not generator.chance(0.2)},
        "firmware": {"version": random.choice(["1.0.0", "1.2.0", "2.0.0-rc.1"])},
        NUMA: {"int": random.choice([0, 0, 1])},
        LANE: {"string": random.choice(["x", "x", "y"])},
    }
    if not generator.all_attributes:
        for key in list(attributes):
            if generator.chance(0.15):
                del attributes[key]
        if generator.chance(0.1):
            attributes["model"] = random.choice([{"int": 1}, {"bool": True}, {"version": "1.0.0"}])
    if generator.chance(0.1):
        attributes[f"{driver}/model"] = attributes.pop("model", {"string": "a"})
    memory: Tree = {"value": random.choice(["10Gi", "20Gi", "40Gi"])}
    capacity: Tree = {"memory": memory}
    if generator.chance(0.4):
        capacity["lanes"] = {"value": random.choice(["4", "8"])}
    device: Tree = {"name": f"d{number}", "attributes": attributes, "capacity": capacity}
    if generator.shareable and generator.chance(0.7):
        device["allowMultipleAllocations"] = True
        if generator.chance(0.6):
            memory["requestPolicy"] = random.choice(
                [
                    {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}},
                    {"default": "4Gi", "validRange": {"min": "1Gi", "max": "8Gi"}},
                    {"default": "4Gi", "validValues": ["2Gi", "4Gi", "10Gi"]},
                    {"default": "1Gi"},
                ]
            )
    if generator.chance(0.1):
        device["taints"] = [{**TAINT, "effect": random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])}]
    if generator.chance(0.05):
        device["bindsToNode"] = True
    return device


def new_rule(generator: ScenarioGenerator) -> Tree:
    selector: Tree = {}
    if generator.chance(0.6):
        selector["driver"] = generator.random.choice(generator.drivers)
    if generator.chance(0.6):
        selector["pool"] = f"{generator.name}-{generator.random.choice(generator.nodes)[-2:]}-gpu"
    if generator.chance(0.5):
        selector["device"] = generator.random.choice(["d0", "d1"])
    effect = generator.random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])
    spec = {"taint": {**TAINT, "effect": effect}, "deviceSelector": selector}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
            "metadata": {"name": f"{generator.name}-rule"}, "spec": spec}  # fmt: skip


def new_class(generator: ScenarioGenerator, name: str) -> Tree:
    driver = next((driver for driver in generator.drivers if name.endswith(f"-{driver.partition('.')[0]}")), "")
    selectors = [f"device.driver == '{driver}'"] if driver else []
    if generator.chance(0.06):
        selectors.append(new_selector(generator))
    spec: Tree = {"selectors": [{"cel": {"expression": selector}} for selector in selectors]}
    if generator.chance(0.2):
        spec["config"] = [new_config(generator)]
    if generator.extended and driver:
        spec["extendedResourceName"] = f"example.com/{name}"
    return {"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
