"""Themes about pods: their other requirements, priorities and groups."""

from __future__ import annotations

from typing import Final

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.generate import new_scenario
from tests.kube.differential.scenarios.generator import CONSTRAINED, ZONES, ScenarioGenerator
from tests.kube.differential.scenarios.pods import entry_of
from tests.kube.differential.scenarios.scenario import PRIVILEGED, Scenario


def claims(generator: ScenarioGenerator) -> Scenario:
    """Pods with several claims with several requests and constraints across them."""
    generator.claims, generator.requests, generator.constraints = (1, 2, 2, 3), (1, 1, 2), CONSTRAINED
    return new_scenario(generator)


def admin(generator: ScenarioGenerator) -> Scenario:
    """Admin access in several requests and claims, to devices that other claims use."""
    generator.namespace, generator.admin_chance, generator.claims, generator.requests = (
        PRIVILEGED,
        0.6,
        (1, 2, 2),
        (1, 2),
    )
    return new_scenario(generator)


def extended(generator: ScenarioGenerator) -> Scenario:
    """Extended resources of several classes in several containers; some by the class's implicit name."""
    random = generator.random
    generator.extended, generator.device_plugins = True, generator.chance(0.3)
    scenario, implicit = new_scenario(generator), generator.classes
    if generator.chance(0.3):
        # Several classes with one name: the newest wins, then the first by name. kube-scheduler serves another one by
        # its implicit name only if its informer received it before the winner.
        implicit = [min(generator.classes)]
        for item in scenario.of_kind("DeviceClass"):
            item["spec"]["extendedResourceName"] = f"example.com/{generator.classes[1]}"
    for pod in scenario.pods:
        containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        for container in (
            containers if any("limits" in container.get("resources", {}) for container in containers) else ()
        ):
            if generator.chance(0.5):
                name = random.choice(generator.classes)
                prefix = "example.com"
                if name not in generator.classes[1:] or not generator.chance(0.5):
                    prefix, name = _IMPLICIT, name if name in implicit else implicit[0]
                resources = container.setdefault("resources", {})
                for part in ("limits", *(("requests",) if "requests" in resources else ())):
                    resources[part] = {**resources.get(part, {}), f"{prefix}/{name}": "1"}
    return scenario


_IMPLICIT: Final = "deviceclass.resource.kubernetes.io"


def neighbours(generator: ScenarioGenerator) -> Scenario:
    """Pods with affinity between them, on nodes with taints and few resources, which request devices as well."""
    random = generator.random
    generator.affinity_chance = 0.5
    scenario = new_scenario(generator)
    for node in scenario.of_kind("Node"):
        amounts = {**node["status"]["allocatable"], "cpu": random.choice(["1", "2", "4"])}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
        if generator.chance(0.4):
            node["spec"]["taints"] = [
                {"key": f"example.com/{random.choice(['ours', 'old'])}",
                 "effect": random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])}
            ]  # fmt: skip
        if generator.chance(0.2):
            del node["metadata"]["labels"]["zone"]
    for pod in scenario.pods:
        pod["metadata"]["labels"]["app"] = random.choice(["x", "y"])
        for constraint in pod["spec"].get("topologySpreadConstraints") or ():
            constraint |= {"maxSkew": random.choice([1, 2]), "matchLabelKeys": random.choice([[], ["app"]])}
            if generator.chance(0.3) and constraint["topologyKey"] != "zone":
                constraint["minDomains"] = random.choice([1, 3, 9])
            if generator.chance(0.3):
                constraint["nodeTaintsPolicy"] = random.choice(["Honor", "Ignore"])
            if generator.chance(0.3):
                constraint["nodeAffinityPolicy"] = random.choice(["Honor", "Ignore"])
        if generator.chance(0.3):
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": random.choice([80, 81])}]
        if generator.chance(0.3):
            pod["spec"]["nodeSelector"] = {"zone": random.choice(ZONES)}
    return scenario


def priorities(generator: ScenarioGenerator) -> Scenario:
    """Few resources, and pods that preempt others; some of these are protected by a PodDisruptionBudget."""
    random = generator.random
    generator.extended, generator.device_plugins, generator.crowded = False, False, True
    generator.nodes, generator.claims, generator.requests, generator.constraints = (
        generator.nodes[:3],
        (0, 0, 1, 1, 2),
        (1,),
        (0,),
    )
    scenario = new_scenario(generator)
    for node in scenario.of_kind("Node"):
        node["spec"].pop("unschedulable", None)
        amounts = {**node["status"]["allocatable"], "cpu": "2", "pods": random.choice(["2", "3", "110"])}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
    first = len(scenario.pods) // 2
    for number, pod in enumerate(scenario.pods):
        names = ["low", "low", "middle"] if number < first else ["low", "middle", "high", "high", "calm"]
        pod["spec"]["priorityClassName"] = random.choice(names)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = random.choice(["600m", "900m", "1500m", "2"])
        pod["metadata"]["labels"]["app"] = random.choice(["x", "y"])
    if generator.chance(0.4):
        metadata = {"name": f"{generator.name}-budget", "namespace": generator.namespace}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        scenario.cluster.append(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        )
    return scenario


def groups(generator: ScenarioGenerator) -> Scenario:
    """Pods of groups, some of whose claims belong to the group; a few groups do not exist."""
    random = generator.random
    generator.extended = generator.device_plugins = False
    generator.claims = (1, 1, 2)
    scenario = new_scenario(generator)
    claims = scenario.of_kind("ResourceClaim", "ResourceClaimTemplate")
    found: list[Tree] = []
    for number in range(random.choice([1, 2])):
        entries = [{"name": f"c{at}", **entry_of(claim)} for at, claim in enumerate(random.sample(claims, 2))]
        found.append({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": f"{generator.name}-g{number}", "namespace": generator.namespace},
            "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": entries[: random.choice([1, 2])]},
        })  # fmt: skip
    scenario.cluster.extend(found)
    for pod in scenario.pods:
        if generator.chance(0.8):
            group = random.choice(found)
            name = group["metadata"]["name"] if generator.chance(0.95) else f"{generator.name}-g9"
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            if generator.chance(0.7):
                pod["spec"]["resourceClaims"] = [dict(claim) for claim in group["spec"]["resourceClaims"]]
    return scenario
