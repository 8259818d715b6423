"""Pods at random."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differing.worlds.drawing import ZONES, Drawing
from tests.kube.differing.worlds.nodes import node_selector


def new_pod(drawing: Drawing, name: str, namespace: str, claims: list[Tree]) -> Tree:
    random = drawing.random
    entries = []
    for number, claim in enumerate(random.sample(claims, min(len(claims), random.choice(drawing.claims)))):
        entries.append({"name": f"c{number}", **entry_of(claim)})
    amounts: Tree = {"cpu": random.choice(["100m", "100m", "1500m"])}
    resources: Tree = {"requests": amounts}
    if drawing.extended and drawing.chance(0.5):
        entries = [] if drawing.plugged else entries[1:]
        wanted = {f"example.com/{random.choice(drawing.classes[1:])}": str(random.choice([1, 1, 2]))}
        resources = {"requests": {**amounts, **wanted}, "limits": wanted}
    spec: Tree = {
        "terminationGracePeriodSeconds": 0, "resourceClaims": entries,
        "containers": [{"name": "main", "image": "i", "resources": resources}],
    }  # fmt: skip
    if "limits" in resources and drawing.chance(0.5):
        more_containers(drawing, spec, resources)
    if drawing.chance(0.15):
        spec["nodeSelector"] = {"zone": random.choice(ZONES)}
    if drawing.chance(0.25 if drawing.crowded else 0.5):  # one node, so that chance does not decide
        required = {"nodeSelectorTerms": [only_on(random.choice(drawing.nodes))]}
    elif drawing.chance(0.2):
        required = node_selector(drawing)
    else:
        required = {}
    if required:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    selector = {"labelSelector": {"matchLabels": {"world": drawing.name}}}
    key = random.choice(["zone", "kubernetes.io/hostname"])
    if drawing.chance(drawing.minding):
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector}
        ]
    if drawing.chance(drawing.minding):
        kind = random.choice(["podAntiAffinity", "podAffinity"])
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **selector}]}
        spec.setdefault("affinity", {})[kind] = terms
    if drawing.chance(0.2):
        spec["tolerations"] = [{"key": "example.com/ours", "operator": "Exists"}]
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {"world": drawing.name, "stays": random.choice(["ours", "theirs"])},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def more_containers(drawing: Drawing, spec: Tree, resources: Tree) -> None:
    """Others that want the same resource, before, beside and after."""
    for number in range(drawing.random.randint(1, 3)):
        limits = {name: str(drawing.random.choice([1, 1, 2, 3])) for name in resources["limits"]}
        container: Tree = {"name": f"more{number}", "image": "i", "resources": {"limits": limits}}
        kind = "containers" if drawing.chance(0.3) else "initContainers"
        if kind == "initContainers" and drawing.chance(0.3):
            container["restartPolicy"] = "Always"
        spec.setdefault(kind, []).append(container)


def only_on(node: str) -> Tree:
    """A term of a node selector that one node alone satisfies."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def entry_of(claim: Tree) -> Tree:
    """How a pod refers to a claim or a template."""
    field = "resourceClaimName" if claim["kind"] == "ResourceClaim" else "resourceClaimTemplateName"
    return {field: claim["metadata"]["name"]}
