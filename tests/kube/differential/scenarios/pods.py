"""Generates random pods with claims, extended resources, affinity and priorities."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.generator import ZONES, ScenarioGenerator
from tests.kube.differential.scenarios.nodes import node_selector


def new_pod(generator: ScenarioGenerator, name: str, namespace: str, claims: list[Tree]) -> Tree:
    random = generator.random
    entries = []
    for number, claim in enumerate(random.sample(claims, min(len(claims), random.choice(generator.claims)))):
        entries.append({"name": f"c{number}", **entry_of(claim)})
    amounts: Tree = {"cpu": random.choice(["100m", "100m", "1500m"])}
    resources: Tree = {"requests": amounts}
    if generator.extended and generator.chance(0.5):
        entries = [] if generator.device_plugins else entries[1:]
        expected = {f"example.com/{random.choice(generator.classes[1:])}": str(random.choice([1, 1, 2]))}
        resources = {"requests": {**amounts, **expected}, "limits": expected}
    spec: Tree = {
        "terminationGracePeriodSeconds": 0, "resourceClaims": entries,
        "containers": [{"name": "main", "image": "i", "resources": resources}],
    }  # fmt: skip
    if "limits" in resources and generator.chance(0.5):
        more_containers(generator, spec, resources)
    if generator.chance(0.15):
        spec["nodeSelector"] = {"zone": random.choice(ZONES)}
    if generator.chance(0.25 if generator.crowded else 0.5):  # one node, so that the choice is not random
        required = {"nodeSelectorTerms": [only_on(random.choice(generator.nodes))]}
    elif generator.chance(0.2):
        required = node_selector(generator)
    else:
        required = {}
    if required:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    selector = {"labelSelector": {"matchLabels": {"scenario": generator.name}}}
    key = random.choice(["zone", "kubernetes.io/hostname"])
    if generator.chance(generator.affinity_chance):
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector}
        ]
    if generator.chance(generator.affinity_chance):
        kind = random.choice(["podAntiAffinity", "podAffinity"])
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **selector}]}
        spec.setdefault("affinity", {})[kind] = terms
    if generator.chance(0.2):
        spec["tolerations"] = [{"key": "example.com/ours", "operator": "Exists"}]
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {"scenario": generator.name, "stays": random.choice(["allotment", "kube"])},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def more_containers(generator: ScenarioGenerator, spec: Tree, resources: Tree) -> None:
    """Init containers, sidecars and containers that request the same resource."""
    for number in range(generator.random.randint(1, 3)):
        limits = {name: str(generator.random.choice([1, 1, 2, 3])) for name in resources["limits"]}
        container: Tree = {"name": f"more{number}", "image": "i", "resources": {"limits": limits}}
        kind = "containers" if generator.chance(0.3) else "initContainers"
        if kind == "initContainers" and generator.chance(0.3):
            container["restartPolicy"] = "Always"
        spec.setdefault(kind, []).append(container)


def only_on(node: str) -> Tree:
    """A node selector term that only one node satisfies."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def entry_of(claim: Tree) -> Tree:
    """A pod's reference to a claim or a template."""
    field = "resourceClaimName" if claim["kind"] == "ResourceClaim" else "resourceClaimTemplateName"
    return {field: claim["metadata"]["name"]}
