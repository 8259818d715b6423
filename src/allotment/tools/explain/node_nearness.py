"""The distance of nodes from those that a pod's nodeSelector or node affinity names, by the values of their labels.

A label that names a product is compared like a product name: ``NVIDIA-A100-80GB`` means the nodes with
``NVIDIA-A100-SXM4-80GB``, and nodes with less memory per device than the named product are the last choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from allotment.engine.diagnosis.published_names import similar_names
from allotment.engine.diagnosis.value_distance import name_distance, named_memory, names_same
from allotment.engine.remedies import REMEDIES, Distance
from allotment.fleet.advertised_memory import accelerator_gb
from allotment.fleet.gpu_product_labels import product_of_label, products_of_cloud
from allotment.fleet.profiles import accelerators
from allotment.model.core import Pod
from allotment.model.node_selectors import NodeSelector
from allotment.tools.explain.node_eligibility import UNSCHEDULABLE, EligibilityNode, required_affinity, tolerated

#: The values of a node for the keys of a pod's rules; None for a key that it lacks.
_Values: TypeAlias = tuple[str | None, ...]


class LabelChange(NamedTuple):
    """The change of one rule for nodes, so that it names a node's own label: its remedy, and how far the values are."""

    remedy: str
    size: float


class AffinityRule(NamedTuple):
    """A requirement ``key In values`` of a required node affinity with one term, and its position in the term."""

    position: int
    key: str
    values: tuple[str, ...]


def label_change(wanted: Iterable[str], actual: str | None) -> LabelChange:
    """The change from the ``wanted`` values of a label to the ``actual`` one; without one the rule must be removed.

    >>> label_change(["NVIDIA-A100-80GB"], "NVIDIA-A100-SXM4-80GB").remedy
    'select'
    >>> label_change(["NVIDIA-A100-80GB"], "NVIDIA-H100-80GB-HBM3").remedy
    'select-model'
    >>> label_change(["NVIDIA-A100-80GB"], "NVIDIA-A100-SXM4-40GB").remedy
    'select-less'
    >>> label_change(["big"], "large").remedy, label_change(["big"], None).remedy
    ('select', 'unselect')
    """
    if actual is None:
        return LabelChange("unselect", 1.0)
    return min((_changed(value, actual) for value in wanted), key=_loss, default=LabelChange("select", 0.0))


def _changed(wanted: str, actual: str) -> LabelChange:
    size = name_distance(wanted, actual)
    memory = _memory_gb(wanted)
    if names_same(wanted, actual) or not memory:
        return LabelChange("select", size)
    less = 0 < _memory_gb(actual) < memory
    return LabelChange("select-less" if less else "select-model", size)


def _memory_gb(value: str) -> int:
    """The memory in GB of the product that a label's value names; 0 if it names none that is known."""
    product, is_known = product_of_label(value)
    products = (product,) if is_known else products_of_cloud(value)
    known = [accelerator_gb(model) for model in accelerators().values() if model.product in products]
    return min(known, default=named_memory(value) // 10**9)


def _loss(change: LabelChange) -> tuple[int, float]:
    return (REMEDIES[change.remedy].loss, change.size)


def affinity_rules(affinity: NodeSelector | None) -> Iterator[AffinityRule]:
    """The rules of a required node affinity that name values of labels; none if it has several terms."""
    if affinity is None or len(affinity.node_selector_terms) != 1:
        return
    for position, requirement in enumerate(affinity.node_selector_terms[0].match_expressions):
        if requirement.operator == "In":
            yield AffinityRule(position, requirement.key, tuple(requirement.values))


def by_nearness(pod: Pod, nodes: Iterable[EligibilityNode]) -> list[list[EligibilityNode]]:
    """The nodes in groups that are equally near to the pod's rules, nearest first."""
    wanted: dict[str, tuple[str, ...]] = {key: (value,) for key, value in pod.spec.node_selector.items()}
    wanted |= {rule.key: rule.values for rule in affinity_rules(required_affinity(pod.spec))}
    groups: dict[tuple[_Values, tuple[str, ...]], list[EligibilityNode]] = {}
    for node in nodes:
        groups.setdefault((_values(wanted, node.facts.labels), _taint_remedies(pod, node)), []).append(node)
    return [group for _, group in sorted(groups.items(), key=lambda item: _distance(wanted, *item[0]))]


def _taint_remedies(pod: Pod, node: EligibilityNode) -> tuple[str, ...]:
    """The remedies against the taints of a node that the pod does not tolerate."""
    blocking = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    untolerated = (taint for taint in blocking if not tolerated(taint, pod.spec.tolerations))
    return tuple(sorted("uncordon" if taint == UNSCHEDULABLE else "tolerate-node" for taint in untolerated))


def _values(wanted: Mapping[str, tuple[str, ...]], labels: Mapping[str, str]) -> _Values:
    """The values of a node for the keys of rules; for a key that it lacks, the wanted value of a similar key."""
    return tuple(
        labels[key] if key in labels else _of_similar_key(key, allowed, labels) for key, allowed in wanted.items()
    )


def _of_similar_key(key: str, values: tuple[str, ...], labels: Mapping[str, str]) -> str | None:
    alike = [label for label, actual in labels.items() if actual in values]
    return next((labels[label] for label in similar_names(key, alike)), None) if alike else None


def _distance(wanted: Mapping[str, tuple[str, ...]], values: _Values, remedies: Sequence[str]) -> Distance:
    """The distance of the changes that make the rules match the labels of a node, and of ``remedies``."""
    pairs = zip(wanted.values(), values, strict=True)
    changes = [label_change(allowed, value) for allowed, value in pairs if value not in allowed]
    losses = [REMEDIES[remedy].loss for remedy in (*(change.remedy for change in changes), *remedies)]
    return Distance(max(losses, default=0), len(losses), sum(change.size for change in changes))
