"""Matching of labels against selectors (``matchLabels``, ``matchExpressions``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Labels = Mapping[str, str]


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether labels match a selector; None matches nothing, an empty selector everything.

    >>> selects({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}, {"app": "web"})
    True
    """
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _holds(requirement, labels) for requirement in selector.get("matchExpressions") or ()
    )


def _holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    label = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return label is not None and label in requirement["values"]
        case "NotIn":
            return label is None or label not in requirement["values"]
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
    return False  # an unknown operator matches nothing


def has_all(wanted: Mapping[str, str] | None, labels: Labels) -> bool:
    """Whether labels contain all pairs of a map, as in a Service selector; an empty or missing map matches nothing."""
    return bool(wanted) and all(labels.get(key) == value for key, value in (wanted or {}).items())
