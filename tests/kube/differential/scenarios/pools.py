"""Random pools: complete and incomplete slices, and devices that share counters."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.devices import new_device
from tests.kube.differential.scenarios.generator import RESOURCE, ScenarioGenerator
from tests.kube.differential.scenarios.nodes import node_selector


def new_pool(generator: ScenarioGenerator, driver: str, name: str, reach: Tree) -> list[Tree]:
    """The slices of a pool, nearly always complete and valid."""
    random, slices = generator.random, []
    devices = [new_device(generator, driver, number) for number in range(random.randint(1, 5))]
    specs: list[Tree] = []
    if generator.partitioned and generator.chance(0.6):
        sets, devices = partitions(generator, driver, devices)
        specs.append({"sharedCounters": sets})
    if "nodeName" not in reach and generator.chance(0.4):
        reach = {"perDeviceNodeSelection": True}
        for device in devices:
            device |= random.choice(
                [
                    {"allNodes": True},
                    {"nodeName": random.choice(generator.nodes)},
                    {"nodeSelector": node_selector(generator)},
                ]
            )
    cut = random.randint(0, len(devices)) if generator.chance(0.25) else len(devices)
    specs += [{"devices": part} for part in (devices[:cut], devices[cut:]) if part]
    generation, count = random.choice([1, 1, 3]), len(specs)
    mishap = random.random()
    if mishap < 0.04:
        count += 1
    elif mishap < 0.06 and count > 1:
        count -= 1
    elif mishap < 0.09 and "devices" in specs[-1]:
        specs.append({"devices": [dict(specs[-1]["devices"][0])]})  # a device name occurs twice
        count += 1
    for number, spec in enumerate(specs):
        slices.append((f"{number}", generation, count, spec))
    if generator.chance(0.08):
        old = [new_device(generator, driver, number) for number in (0, 8)]
        slices.append(("old", generation - 1, 1, {"devices": [{**specs[-1]["devices"][0], **item} for item in old]}))
    return [
        {"apiVersion": RESOURCE, "kind": "ResourceSlice",
         "metadata": {"name": f"{name}-{driver.partition('.')[0]}-{suffix}"},
         "spec": {"driver": driver, **reach, **spec,
                  "pool": {"name": f"{name}-{driver[:3]}", "generation": at, "resourceSliceCount": of}}}
        for suffix, at, of, spec in slices
    ]  # fmt: skip


def partitions(generator: ScenarioGenerator, driver: str, cards: list[Tree]) -> tuple[list[Tree], list[Tree]]:
    """Cards divided into a whole, halves and a small part that consume the card's counters; at times these are too
    few."""
    random = generator.random
    sets, devices = [], []
    for number, card in enumerate(cards[:2]):
        counters = {"memory": {"value": random.choice(["40Gi", "40Gi", "30Gi"])}}
        if generator.chance(0.5):
            counters["engines"] = {"value": "3"}
        name = f"{driver.partition('.')[0]}{number}"
        sets.append({"name": name, "counters": counters})
        for part, memory, engines in random.sample(
            [("whole", "40Gi", "3"), ("half0", "20Gi", "1"), ("half1", "20Gi", "1"), ("sliver", "5Gi", "0")], 3
        ):
            drawn_ = {"memory": {"value": memory}}
            if "engines" in counters:
                drawn_["engines"] = {"value": engines}
            consumed = [{"counterSet": name, "counters": drawn_}]
            devices.append({**card, "name": f"{card['name']}-{part}", "consumesCounters": consumed})
    devices += cards[2:]
    random.shuffle(devices)
    return sets, devices
