"""Themes that are about pods: what else they want, and who they are."""

from __future__ import annotations

from typing import Final

from allotment.model.trees import Tree
from tests.kube.differing.worlds.drawing import CONSTRAINED, ZONES, Drawing
from tests.kube.differing.worlds.pods import entry_of
from tests.kube.differing.worlds.whole import new_world
from tests.kube.differing.worlds.world import PRIVILEGED, World


def claims(drawing: Drawing) -> World:
    """Pods with several claims, of several requests, with constraints across them."""
    drawing.claims, drawing.requests, drawing.constraints = (1, 2, 2, 3), (1, 1, 2), CONSTRAINED
    return new_world(drawing)


def admin(drawing: Drawing) -> World:
    """Admin access, of several requests and claims, to devices that others have too."""
    drawing.namespace, drawing.admin, drawing.claims, drawing.requests = PRIVILEGED, 0.6, (1, 2, 2), (1, 2)
    return new_world(drawing)


def extended(drawing: Drawing) -> World:
    """Extended resources of several classes in several containers; some by the class's own name."""
    random = drawing.random
    drawing.extended, drawing.plugged = True, drawing.chance(0.3)
    world = new_world(drawing)
    if drawing.chance(0.3):
        for one in world.of("DeviceClass"):  # several of one name: the newest, then the first by name
            one["spec"]["extendedResourceName"] = f"example.com/{drawing.classes[1]}"
    for pod in world.pods:
        containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        for container in containers if any("limits" in one.get("resources", {}) for one in containers) else ():
            if drawing.chance(0.5):
                name = random.choice(drawing.classes)
                prefix = "example.com" if name in drawing.classes[1:] and drawing.chance(0.5) else _IMPLICIT
                resources = container.setdefault("resources", {})
                for part in ("limits", *(("requests",) if "requests" in resources else ())):
                    resources[part] = {**resources.get(part, {}), f"{prefix}/{name}": "1"}
    return world


_IMPLICIT: Final = "deviceclass.resource.kubernetes.io"


def neighbours(drawing: Drawing) -> World:
    """Pods that mind each other, on nodes with taints and little room, which want devices as well."""
    random = drawing.random
    drawing.minding = 0.5
    world = new_world(drawing)
    for node in world.of("Node"):
        amounts = {**node["status"]["allocatable"], "cpu": random.choice(["1", "2", "4"])}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
        if drawing.chance(0.4):
            node["spec"]["taints"] = [
                {"key": f"example.com/{random.choice(['ours', 'old'])}",
                 "effect": random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])}
            ]  # fmt: skip
        if drawing.chance(0.2):
            del node["metadata"]["labels"]["zone"]
    for pod in world.pods:
        pod["metadata"]["labels"]["app"] = random.choice(["x", "y"])
        for one in pod["spec"].get("topologySpreadConstraints") or ():
            one |= {"maxSkew": random.choice([1, 2]), "matchLabelKeys": random.choice([[], ["app"]])}
            if drawing.chance(0.3) and one["topologyKey"] != "zone":
                one["minDomains"] = random.choice([1, 3, 9])
            if drawing.chance(0.3):
                one["nodeTaintsPolicy"] = random.choice(["Honor", "Ignore"])
            if drawing.chance(0.3):
                one["nodeAffinityPolicy"] = random.choice(["Honor", "Ignore"])
        if drawing.chance(0.3):
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": random.choice([80, 81])}]
        if drawing.chance(0.3):
            pod["spec"]["nodeSelector"] = {"zone": random.choice(ZONES)}
    return world


def priorities(drawing: Drawing) -> World:
    """Little room, and pods for which others have to go; some of these are guarded by a budget."""
    random = drawing.random
    drawing.extended, drawing.plugged, drawing.crowded = False, False, True
    drawing.nodes, drawing.claims, drawing.requests, drawing.constraints = (
        drawing.nodes[:3],
        (0, 0, 1, 1, 2),
        (1,),
        (0,),
    )
    world = new_world(drawing)
    for node in world.of("Node"):
        node["spec"].pop("unschedulable", None)
        amounts = {**node["status"]["allocatable"], "cpu": "2", "pods": random.choice(["2", "3", "110"])}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
    first = len(world.pods) // 2
    for number, pod in enumerate(world.pods):
        names = ["low", "low", "middle"] if number < first else ["low", "middle", "high", "high", "calm"]
        pod["spec"]["priorityClassName"] = random.choice(names)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = random.choice(["600m", "900m", "1500m", "2"])
        pod["metadata"]["labels"]["app"] = random.choice(["x", "y"])
    if drawing.chance(0.4):
        metadata = {"name": f"{drawing.name}-budget", "namespace": drawing.namespace}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        world.cluster.append(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        )
    return world


def groups(drawing: Drawing) -> World:
    """Pods of groups, some of whose claims are their group's; a few groups are not there."""
    random = drawing.random
    drawing.extended = drawing.plugged = False
    drawing.claims = (1, 1, 2)
    world = new_world(drawing)
    claims = world.of("ResourceClaim", "ResourceClaimTemplate")
    found: list[Tree] = []
    for number in range(random.choice([1, 2])):
        entries = [{"name": f"c{at}", **entry_of(claim)} for at, claim in enumerate(random.sample(claims, 2))]
        found.append({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": f"{drawing.name}-g{number}", "namespace": drawing.namespace},
            "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": entries[: random.choice([1, 2])]},
        })  # fmt: skip
    world.cluster.extend(found)
    for pod in world.pods:
        if drawing.chance(0.8):
            group = random.choice(found)
            name = group["metadata"]["name"] if drawing.chance(0.95) else f"{drawing.name}-g9"
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            if drawing.chance(0.7):
                pod["spec"]["resourceClaims"] = [dict(one) for one in group["spec"]["resourceClaims"]]
    return world
