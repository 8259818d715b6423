"""Label selectors as objects write them (``matchLabels``, ``matchExpressions``), asked about labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Labels = Mapping[str, str]


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether labels satisfy a selector; no selector matches nothing, an empty one everything.

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
    return False  # an operator of the future selects nothing


def has_all(wanted: Mapping[str, str] | None, labels: Labels) -> bool:
    """Whether labels contain those of a plain map, as Services select; no or an empty map matches nothing."""
    return bool(wanted) and all(labels.get(key) == value for key, value in (wanted or {}).items())
