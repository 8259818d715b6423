"""Devices at random, their classes, and rules that taint them."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differing.worlds.claims import new_config
from tests.kube.differing.worlds.drawing import LANE, MODELS, NUMA, RESOURCE, TAINT, Drawing
from tests.kube.differing.worlds.selectors import new_selector


def new_device(drawing: Drawing, driver: str, number: int) -> Tree:
    random = drawing.random
    attributes: Tree = {
        "model": {"string": random.choice(MODELS)},
        "cores": {"int": random.choice([0, 2, 4])},
        "healthy": {"bool": not drawing.chance(0.2)},
        "firmware": {"version": random.choice(["1.0.0", "1.2.0", "2.0.0-rc.1"])},
        NUMA: {"int": random.choice([0, 0, 1])},
        LANE: {"string": random.choice(["x", "x", "y"])},
    }
    if not drawing.whole:
        for key in list(attributes):
            if drawing.chance(0.15):
                del attributes[key]
        if drawing.chance(0.1):
            attributes["model"] = random.choice([{"int": 1}, {"bool": True}, {"version": "1.0.0"}])
    if drawing.chance(0.1):
        attributes[f"{driver}/model"] = attributes.pop("model", {"string": "a"})
    memory: Tree = {"value": random.choice(["10Gi", "20Gi", "40Gi"])}
    capacity: Tree = {"memory": memory}
    if drawing.chance(0.4):
        capacity["lanes"] = {"value": random.choice(["4", "8"])}
    device: Tree = {"name": f"d{number}", "attributes": attributes, "capacity": capacity}
    if drawing.shareable and drawing.chance(0.7):
        device["allowMultipleAllocations"] = True
        if drawing.chance(0.6):
            memory["requestPolicy"] = random.choice(
                [
                    {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}},
                    {"default": "4Gi", "validRange": {"min": "1Gi", "max": "8Gi"}},
                    {"default": "4Gi", "validValues": ["2Gi", "4Gi", "10Gi"]},
                    {"default": "1Gi"},
                ]
            )
    if drawing.chance(0.1):
        device["taints"] = [{**TAINT, "effect": random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])}]
    if drawing.chance(0.05):
        device["bindsToNode"] = True
    return device


def new_rule(drawing: Drawing) -> Tree:
    selector: Tree = {}
    if drawing.chance(0.6):
        selector["driver"] = drawing.random.choice(drawing.drivers)
    if drawing.chance(0.6):
        selector["pool"] = f"{drawing.name}-{drawing.random.choice(drawing.nodes)[-2:]}-gpu"
    if drawing.chance(0.5):
        selector["device"] = drawing.random.choice(["d0", "d1"])
    effect = drawing.random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])
    spec = {"taint": {**TAINT, "effect": effect}, "deviceSelector": selector}
    return {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule",
            "metadata": {"name": f"{drawing.name}-rule"}, "spec": spec}  # fmt: skip


def new_class(drawing: Drawing, name: str) -> Tree:
    driver = next((one for one in drawing.drivers if name.endswith(f"-{one.partition('.')[0]}")), "")
    selectors = [f"device.driver == '{driver}'"] if driver else []
    if drawing.chance(0.06):
        selectors.append(new_selector(drawing))
    spec: Tree = {"selectors": [{"cel": {"expression": one}} for one in selectors]}
    if drawing.chance(0.2):
        spec["config"] = [new_config(drawing)]
    if drawing.extended and driver:
        spec["extendedResourceName"] = f"example.com/{name}"
    return {"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
