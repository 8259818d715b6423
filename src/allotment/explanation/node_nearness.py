"""The distance of nodes from those that a pod's nodeSelector or node affinity names, by the values of their labels.

A label that names a product is compared like a product name: ``NVIDIA-A100-80GB`` means the nodes with
``NVIDIA-A100-SXM4-80GB``, and nodes with less memory per device than the named product are the last choice. Of other
labels, such as the name of a pool, the nodes that have the expected value say which hardware is intended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from allotment.engine.claims.constraints import find_attribute
from allotment.engine.diagnosis.published_names import MIN_SIMILARITY, similar_names, similarity
from allotment.engine.diagnosis.value_distance import name_distance, named_memory, names_same
from allotment.engine.remedies import REMEDIES, Distance
from allotment.explanation.node_eligibility import EligibilityNode, matches, required_affinity, tolerated
from allotment.explanation.taint_remedies import remedy_of
from allotment.fleet.advertised_memory import accelerator_gb
from allotment.fleet.gpu_product_labels import product_of_label, products_of_cloud
from allotment.fleet.profiles import accelerators
from allotment.model.core import Pod
from allotment.model.node_selectors import NodeSelector
from allotment.model.resource import Device, ResourceSlice

#: The attributes that name a device's model.
_MODEL: Final = ("productName", "model")
#: The values of a node for the keys of a pod's rules; None for a key that it lacks.
_Values: TypeAlias = tuple[str | None, ...]


class LabelChange(NamedTuple):
    """The change of one rule for nodes, so that it names a node's own label: its remedy, and how far the values are."""

    remedy: str
    size: float


class NamedHardware(NamedTuple):
    """The models of the devices on the nodes that a pod's rules name, and the models by node."""

    models: frozenset[str] = frozenset()
    by_node: Mapping[str, frozenset[str]] = {}

    def is_other(self, node: str) -> bool:
        """Whether a node has only devices of models that the named nodes do not have; False if either has none."""
        found = self.by_node.get(node, frozenset())
        return bool(self.models and found) and found.isdisjoint(self.models)


#: Of a pod without rules for nodes.
ANY_HARDWARE: Final = NamedHardware()


class AffinityRule(NamedTuple):
    """A requirement ``key In values`` of a required node affinity with one term, and its position in the term."""

    position: int
    key: str
    values: tuple[str, ...]


def label_change(wanted: Iterable[str], actual: str | None, *, is_other: bool = False) -> LabelChange:
    """The change from the ``wanted`` values of a label to the ``actual`` one; without one the rule must be removed.

    ``is_other``: the nodes with the actual value have other hardware than those with an expected one.

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
    nearest = min((_changed(value, actual) for value in wanted), key=_loss, default=LabelChange("select", 0.0))
    return nearest._replace(remedy="select-model") if is_other and nearest.remedy == "select" else nearest


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


def named_hardware(
    pod: Pod, nodes: Iterable[EligibilityNode], models: Callable[[], Mapping[str, frozenset[str]]]
) -> NamedHardware:
    """The hardware of the nodes that match the pod's nodeSelector and node affinity, if it has any. ``models``: see
    `models_by_node`."""
    selector, affinity = pod.spec.node_selector, required_affinity(pod.spec)
    if not selector and affinity is None:
        return ANY_HARDWARE
    by_node = models()
    named = (
        node.facts.name
        for node in nodes
        if selector.items() <= node.facts.labels.items() and (affinity is None or matches(affinity, node.facts))
    )
    return NamedHardware(frozenset(chain.from_iterable(by_node.get(name, ()) for name in named)), by_node)


def models_by_node(slices: Iterable[ResourceSlice]) -> dict[str, frozenset[str]]:
    """The models of the devices that slices publish for a node, whether or not their pool is complete."""
    found: dict[str, set[str]] = {}
    for slice_ in slices:
        spec = slice_.spec
        if spec.node_name:
            models = found.setdefault(spec.node_name, set())
            models.update(filter(None, (_model(device, spec.driver) for device in spec.devices or ())))
    return {node: frozenset(models) for node, models in found.items()}


def _model(device: Device, driver: str) -> str:
    values = (find_attribute(device, driver, f"{driver}/{name}") for name in _MODEL)
    return next((value.string for value in values if value is not None and value.string), "")


def by_nearness(
    pod: Pod, nodes: Iterable[EligibilityNode], hardware: NamedHardware = ANY_HARDWARE
) -> list[list[EligibilityNode]]:
    """The nodes in groups that are equally near to the pod's rules, nearest first."""
    wanted: dict[str, tuple[str, ...]] = {key: (value,) for key, value in pod.spec.node_selector.items()}
    wanted |= {rule.key: rule.values for rule in affinity_rules(required_affinity(pod.spec))}
    groups: dict[tuple[_Values, tuple[str, ...], bool], list[EligibilityNode]] = {}
    for node in nodes:
        values, is_other = _values(wanted, node.facts.labels), hardware.is_other(node.facts.name)
        groups.setdefault((values, _taint_remedies(pod, node), is_other), []).append(node)
    return [group for _, group in sorted(groups.items(), key=lambda item: _distance(wanted, *item[0]))]


def _taint_remedies(pod: Pod, node: EligibilityNode) -> tuple[str, ...]:
    """The remedies against the taints of a node that the pod does not tolerate."""
    blocking = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    untolerated = (taint for taint in blocking if not tolerated(taint, pod.spec.tolerations))
    return tuple(sorted(remedy_of(taint) or "recover" for taint in untolerated))


def _values(wanted: Mapping[str, tuple[str, ...]], labels: Mapping[str, str]) -> _Values:
    """The values of a node for the keys of rules; for a key that it lacks, that of a similar key."""
    return tuple(
        labels.get(key if key in labels else similar_label(key, allowed, labels)) for key, allowed in wanted.items()
    )


def similar_label(key: str, values: Sequence[str], labels: Mapping[str, str]) -> str:
    """The label of a node that a misspelled key of a rule names: a similar one that has one of the values, or else a
    similar value; empty if there is none.

    >>> similar_label("example.com/poool", ["a100"], {"example.com/pool": "a100", "example.com/pools": "t4"})
    'example.com/pool'
    >>> similar_label("example.com/poool", ["a1000"], {"example.com/pool": "a100", "example.com/pools": "t4"})
    'example.com/pool'
    """
    similar = _similar(key, tuple(labels))
    found = [label for label in similar if labels[label] in values] or [
        label for label in similar if any(similarity(value, labels[label]) >= MIN_SIMILARITY for value in values)
    ]
    return next(iter(similar_names(key, found)), "") if found else ""


@lru_cache(maxsize=1024)  # most nodes have the same labels
def _similar(key: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(label for label in labels if similarity(key, label) >= MIN_SIMILARITY)


def _distance(
    wanted: Mapping[str, tuple[str, ...]], values: _Values, remedies: Sequence[str], is_other: bool
) -> Distance:
    """The distance of the changes that make the rules match the labels of a node, and of ``remedies``. ``is_other``:
    the node has other hardware than the rules name."""
    pairs = zip(wanted.values(), values, strict=True)
    changes = [label_change(allowed, value, is_other=is_other) for allowed, value in pairs if value not in allowed]
    losses = [REMEDIES[remedy].loss for remedy in (*(change.remedy for change in changes), *remedies)]
    return Distance(max(losses, default=0), len(losses), sum(change.size for change in changes))
