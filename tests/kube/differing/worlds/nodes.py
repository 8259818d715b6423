"""Nodes at random, and selectors of nodes."""

from __future__ import annotations

from allotment.model.trees import Tree
from tests.kube.differing.worlds.drawing import ZONES, Drawing


def new_node(drawing: Drawing, name: str) -> Tree:
    labels = {"zone": drawing.random.choice(ZONES), "kubernetes.io/hostname": name}
    amounts = {
        "cpu": drawing.random.choice(["2", "8"]),
        "memory": "8Gi",
        "pods": drawing.random.choice(["2", "110", "110"]),
    }
    taints = [{"key": "example.com/ours", "effect": "NoSchedule"}] if drawing.chance(0.1) else []
    if drawing.plugged and drawing.chance(0.4):
        amounts[f"example.com/{drawing.random.choice(drawing.classes[1:])}"] = drawing.random.choice(["0", "1", "2"])
    tree: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                  "spec": {"taints": taints}, "status": {"allocatable": amounts, "capacity": amounts}}  # fmt: skip
    if drawing.chance(0.05):
        tree["spec"]["unschedulable"] = True
    return tree


def node_selector(drawing: Drawing) -> Tree:
    terms: list[Tree] = []
    for _ in range(drawing.random.choice([1, 1, 2])):
        if drawing.chance(0.3):
            field = {"key": "metadata.name", "operator": "In", "values": [drawing.random.choice(drawing.nodes)]}
            terms.append({"matchFields": [field]})
            continue
        operator = drawing.random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        expression: Tree = {"key": drawing.random.choice(["zone", "zone", "other"]), "operator": operator}
        if operator.endswith("In"):
            expression["values"] = [drawing.random.choice(ZONES)]
        terms.append({"matchExpressions": [expression]})
    return {"nodeSelectorTerms": terms[:1]}  # slices allow one
