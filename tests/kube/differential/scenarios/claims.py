"""Generates random claims, their requests, constraints and configuration."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.generator import LANE, NUMA, RESOURCE, TAINT, ScenarioGenerator
from tests.kube.differential.scenarios.scenario import PRIVILEGED
from tests.kube.differential.scenarios.selectors import new_selector


def new_claim(generator: ScenarioGenerator, kind: str, name: str, namespace: str) -> Tree:
    spec: Tree = {"devices": claim_spec(generator, namespace)}
    if kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    return {"apiVersion": RESOURCE, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def claim_spec(generator: ScenarioGenerator, namespace: str) -> Tree:
    random = generator.random
    requests: list[Tree] = []
    names: list[str] = []
    for number in range(random.choice(generator.requests)):
        name = f"r{number}"
        names.append(name)
        if generator.chance(0.25):
            subs = [{"name": f"s{at}", **new_request(generator)} for at in range(random.randint(1, 3))]
            names += [f"{name}/{sub['name']}" for sub in subs]
            requests.append({"name": name, "firstAvailable": subs})
            continue
        exactly = new_request(generator)
        if namespace == PRIVILEGED and generator.chance(generator.admin_chance):
            exactly["adminAccess"] = True
        requests.append({"name": name, "exactly": exactly})
    devices: Tree = {"requests": requests}
    constraints: list[Tree] = []
    for _ in range(random.choice(generator.constraints)):
        attribute = random.choice([NUMA, LANE, *(f"{driver}/model" for driver in generator.drivers)])
        among = (
            {} if generator.chance(0.4) else {"requests": sorted(random.sample(names, random.randint(1, len(names))))}
        )
        distinct = generator.chance(0.4)
        constraints.append({**among, "distinctAttribute" if distinct else "matchAttribute": attribute})
    if constraints:
        devices["constraints"] = constraints
    if generator.chance(0.2):
        devices["config"] = [
            {
                **new_config(generator),
                **({"requests": sorted(random.sample(names, 1))} if generator.chance(0.5) else {}),
            }
            for _ in range(random.choice([1, 1, 2]))
        ]
    return devices


def new_config(generator: ScenarioGenerator) -> Tree:
    return {
        "opaque": {
            "driver": generator.random.choice(generator.drivers),
            "parameters": {"mode": generator.random.random()},
        }
    }


def new_request(generator: ScenarioGenerator) -> Tree:
    random = generator.random
    found: Tree = {"deviceClassName": random.choice(generator.classes)}
    if generator.chance(0.01):
        found["deviceClassName"] = f"{generator.name}-nowhere"
    if generator.chance(0.15 if generator.crowded else 0.35):
        count = random.choice([1, 1, 1, 2])
        found["selectors"] = [{"cel": {"expression": new_selector(generator)}} for _ in range(count)]
    if generator.chance(0.12):
        found["allocationMode"] = "All"
    elif generator.chance(0.4):
        found["count"] = random.choice([1, 2, 2, 2, 3])
    if generator.chance(0.2):
        found["tolerations"] = [new_toleration(generator)]
    if generator.chance(0.5 if generator.shareable else 0.1):
        key = random.choice(["memory", "memory", "memory", "lanes"])
        found["capacity"] = {"requests": {key: random.choice(["1", "2", "3Gi", "5Gi", "10Gi", "15Gi", "25Gi"])}}
    return found


def new_toleration(generator: ScenarioGenerator) -> Tree:
    random = generator.random
    effect = random.choice([{"effect": "NoExecute"}, {"effect": "NoSchedule"}, {}])
    if generator.chance(0.5):
        return {"key": TAINT["key"], "operator": "Equal", "value": random.choice(["yes", "yes", "no"]), **effect}
    return {"operator": "Exists", **({"key": TAINT["key"]} if generator.chance(0.6) else {}), **effect}
