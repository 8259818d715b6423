"""Random nodes and node selectors."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differential.scenarios.generator import ZONES, ScenarioGenerator


def new_node(generator: ScenarioGenerator, name: str) -> Tree:
    labels = {"zone": generator.random.choice(ZONES), "kubernetes.io/hostname": name}
    amounts = {
        "cpu": generator.random.choice(["2", "8"]),
        "memory": "8Gi",
        "pods": generator.random.choice(["2", "110", "110"]),
    }
    taints = [{"key": "example.com/ours", "effect": "NoSchedule"}] if generator.chance(0.1) else []
    if generator.device_plugins and generator.chance(0.4):
        amounts[f"example.com/{generator.random.choice(generator.classes[1:])}"] = generator.random.choice(
            ["0", "1", "2"]
        )
    tree: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                  "spec": {"taints": taints}, "status": {"allocatable": amounts, "capacity": amounts}}  # fmt: skip
    if generator.chance(0.05):
        tree["spec"]["unschedulable"] = True
    return tree


def node_selector(generator: ScenarioGenerator) -> Tree:
    terms: list[Tree] = []
    for _ in range(generator.random.choice([1, 1, 2])):
        if generator.chance(0.3):
            field = {"key": "metadata.name", "operator": "In", "values": [generator.random.choice(generator.nodes)]}
            terms.append({"matchFields": [field]})
            continue
        operator = generator.random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        expression: Tree = {"key": generator.random.choice(["zone", "zone", "other"]), "operator": operator}
        if operator.endswith("In"):
            expression["values"] = [generator.random.choice(ZONES)]
        terms.append({"matchExpressions": [expression]})
    return {"nodeSelectorTerms": terms[:1]}  # slices allow one term
