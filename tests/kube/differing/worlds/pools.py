"""Pools at random: slices, whole and broken, and what devices of a card share."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differing.worlds.devices import new_device
from tests.kube.differing.worlds.drawing import RESOURCE, Drawing
from tests.kube.differing.worlds.nodes import node_selector


def new_pool(drawing: Drawing, driver: str, name: str, reach: Tree) -> list[Tree]:
    """The slices of a pool, nearly always all of them and well made."""
    random, slices = drawing.random, []
    devices = [new_device(drawing, driver, number) for number in range(random.randint(1, 5))]
    specs: list[Tree] = []
    if drawing.partitioned and drawing.chance(0.6):
        sets, devices = partitions(drawing, driver, devices)
        specs.append({"sharedCounters": sets})
    if "nodeName" not in reach and drawing.chance(0.4):
        reach = {"perDeviceNodeSelection": True}
        for device in devices:
            device |= random.choice(
                [
                    {"allNodes": True},
                    {"nodeName": random.choice(drawing.nodes)},
                    {"nodeSelector": node_selector(drawing)},
                ]
            )
    cut = random.randint(0, len(devices)) if drawing.chance(0.25) else len(devices)
    specs += [{"devices": part} for part in (devices[:cut], devices[cut:]) if part]
    generation, count = random.choice([1, 1, 3]), len(specs)
    mishap = random.random()
    if mishap < 0.04:
        count += 1
    elif mishap < 0.06 and count > 1:
        count -= 1
    elif mishap < 0.09 and "devices" in specs[-1]:
        specs.append({"devices": [dict(specs[-1]["devices"][0])]})  # the name is there twice
        count += 1
    for number, spec in enumerate(specs):
        slices.append((f"{number}", generation, count, spec))
    if drawing.chance(0.08):
        old = [new_device(drawing, driver, number) for number in (0, 8)]
        slices.append(("old", generation - 1, 1, {"devices": [{**specs[-1]["devices"][0], **one} for one in old]}))
    return [
        {"apiVersion": RESOURCE, "kind": "ResourceSlice",
         "metadata": {"name": f"{name}-{driver.partition('.')[0]}-{suffix}"},
         "spec": {"driver": driver, **reach, **spec,
                  "pool": {"name": f"{name}-{driver[:3]}", "generation": at, "resourceSliceCount": of}}}
        for suffix, at, of, spec in slices
    ]  # fmt: skip


def partitions(drawing: Drawing, driver: str, cards: list[Tree]) -> tuple[list[Tree], list[Tree]]:
    """Cards cut into a whole, halves and a sliver, of counters that the card has; at times it has too few."""
    random = drawing.random
    sets, devices = [], []
    for number, card in enumerate(cards[:2]):
        counters = {"memory": {"value": random.choice(["40Gi", "40Gi", "30Gi"])}}
        if drawing.chance(0.5):
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
