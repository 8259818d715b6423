"""Label selectors compiled to predicates that are evaluated for many pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allotment.model.core import LabelSelector, LabelSelectorRequirement

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
    """An unknown operator matches nothing, so that no pod is placed by a guess."""
    return lambda labels: False


_OPERATORS: Mapping[str, Callable[[LabelSelectorRequirement], Matches]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
}


def matcher(selector: LabelSelector | None) -> Matches:
    """Return a predicate that reports whether labels match a selector. None matches nothing, an empty one everything.

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
    """Restrict a selector to pods with the pod's own values of keys ``same`` and different values of keys ``other``.

    This is ``matchLabelKeys``. The API server applies it to pod affinity when a pod is created; for topology spread the
    scheduler does.
    """
    added = [LabelSelectorRequirement(key=k, operator="In", values=(labels[k],)) for k in same if k in labels]
    added += [LabelSelectorRequirement(key=k, operator="NotIn", values=(labels[k],)) for k in other if k in labels]
    if selector is None or not added:
        return selector
    return LabelSelector(match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *added))
