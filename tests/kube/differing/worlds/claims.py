"""Claims at random."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differing.worlds.drawing import LANE, NUMA, RESOURCE, TAINT, Drawing
from tests.kube.differing.worlds.selectors import new_selector
from tests.kube.differing.worlds.world import PRIVILEGED


def new_claim(drawing: Drawing, kind: str, name: str, namespace: str) -> Tree:
    spec: Tree = {"devices": claim_spec(drawing, namespace)}
    if kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    return {"apiVersion": RESOURCE, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def claim_spec(drawing: Drawing, namespace: str) -> Tree:
    random = drawing.random
    requests: list[Tree] = []
    names: list[str] = []
    for number in range(random.choice(drawing.requests)):
        name = f"r{number}"
        names.append(name)
        if drawing.chance(0.25):
            subs = [{"name": f"s{at}", **new_request(drawing)} for at in range(random.randint(1, 3))]
            names += [f"{name}/{sub['name']}" for sub in subs]
            requests.append({"name": name, "firstAvailable": subs})
            continue
        exactly = new_request(drawing)
        if namespace == PRIVILEGED and drawing.chance(drawing.admin):
            exactly["adminAccess"] = True
        requests.append({"name": name, "exactly": exactly})
    devices: Tree = {"requests": requests}
    constraints: list[Tree] = []
    for _ in range(random.choice(drawing.constraints)):
        attribute = random.choice([NUMA, LANE, *(f"{driver}/model" for driver in drawing.drivers)])
        among = {} if drawing.chance(0.4) else {"requests": sorted(random.sample(names, random.randint(1, len(names))))}
        distinct = drawing.chance(0.4)
        constraints.append({**among, "distinctAttribute" if distinct else "matchAttribute": attribute})
    if constraints:
        devices["constraints"] = constraints
    if drawing.chance(0.2):
        devices["config"] = [
            {**new_config(drawing), **({"requests": sorted(random.sample(names, 1))} if drawing.chance(0.5) else {})}
            for _ in range(random.choice([1, 1, 2]))
        ]
    return devices


def new_config(drawing: Drawing) -> Tree:
    return {
        "opaque": {"driver": drawing.random.choice(drawing.drivers), "parameters": {"mode": drawing.random.random()}}
    }


def new_request(drawing: Drawing) -> Tree:
    random = drawing.random
    found: Tree = {"deviceClassName": random.choice(drawing.classes)}
    if drawing.chance(0.01):
        found["deviceClassName"] = f"{drawing.name}-nowhere"
    if drawing.chance(0.15 if drawing.crowded else 0.35):
        count = random.choice([1, 1, 1, 2])
        found["selectors"] = [{"cel": {"expression": new_selector(drawing)}} for _ in range(count)]
    if drawing.chance(0.12):
        found["allocationMode"] = "All"
    elif drawing.chance(0.4):
        found["count"] = random.choice([1, 2, 2, 2, 3])
    if drawing.chance(0.2):
        found["tolerations"] = [new_toleration(drawing)]
    if drawing.chance(0.5 if drawing.shareable else 0.1):
        key = random.choice(["memory", "memory", "memory", "lanes"])
        found["capacity"] = {"requests": {key: random.choice(["1", "2", "3Gi", "5Gi", "10Gi", "15Gi", "25Gi"])}}
    return found


def new_toleration(drawing: Drawing) -> Tree:
    random = drawing.random
    effect = random.choice([{"effect": "NoExecute"}, {"effect": "NoSchedule"}, {}])
    if drawing.chance(0.5):
        return {"key": TAINT["key"], "operator": "Equal", "value": random.choice(["yes", "yes", "no"]), **effect}
    return {"operator": "Exists", **({"key": TAINT["key"]} if drawing.chance(0.6) else {}), **effect}
