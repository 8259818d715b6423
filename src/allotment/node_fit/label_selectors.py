"""Label selectors: one is read once and asked about many pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allotment.node_fit.podspec import LabelSelector, LabelSelectorRequirement

Labels = Mapping[str, str]
Matches = Callable[[Labels], bool]


def _in(requirement: LabelSelectorRequirement) -> Matches:
    key, values = requirement.key, frozenset(requirement.values)
    return lambda labels: labels.get(key) in values


def _not_in(requirement: LabelSelectorRequirement) -> Matches:
    key, values = requirement.key, frozenset(requirement.values)
    return lambda labels: labels.get(key) not in values


def _exists(requirement: LabelSelectorRequirement) -> Matches:
    key = requirement.key
    return lambda labels: key in labels


def _does_not_exist(requirement: LabelSelectorRequirement) -> Matches:
    key = requirement.key
    return lambda labels: key not in labels


def _nothing(_: LabelSelectorRequirement) -> Matches:
    """An operator of the future matches nothing, so that nothing is placed by guess."""
    return lambda labels: False


_OPERATORS: Mapping[str, Callable[[LabelSelectorRequirement], Matches]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
}


def matcher(selector: LabelSelector | None) -> Matches:
    """Whether labels satisfy a selector. No selector matches nothing, an empty one everything.

    >>> matcher(LabelSelector(match_labels={"app": "web"}))({"app": "web", "tier": "1"})
    True
    """
    if selector is None:
        return lambda labels: False
    wanted = tuple(selector.match_labels.items())
    tests = [_OPERATORS.get(r.operator, _nothing)(r) for r in selector.match_expressions]

    def matches(labels: Labels) -> bool:
        return all(labels.get(key) == value for key, value in wanted) and all(test(labels) for test in tests)

    return matches


def with_pod_keys(
    selector: LabelSelector | None, labels: Labels, same: tuple[str, ...], other: tuple[str, ...] = ()
) -> LabelSelector | None:
    """A selector narrowed to pods that have the pod's own values of some keys, and not those of others.

    The API server does this for affinity when a pod is created (``matchLabelKeys``); for spread it is the scheduler's.
    """
    added = [LabelSelectorRequirement(key=k, operator="In", values=(labels[k],)) for k in same if k in labels]
    added += [LabelSelectorRequirement(key=k, operator="NotIn", values=(labels[k],)) for k in other if k in labels]
    if selector is None or not added:
        return selector
    return LabelSelector(match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *added))
