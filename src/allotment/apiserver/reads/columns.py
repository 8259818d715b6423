"""Helpers for table columns: column definitions in short form, ages, labels, truncated lists.

A column is written ``Name``, followed by ``:integer`` or ``:boolean`` if it is not a string, and ``*`` if it is shown
with ``-o wide`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from allotment.apiserver.kinds.kind import Column, StoreReader, TableConverter
from allotment.model.trees import Tree

Row = Callable[[Tree, str], list[Any]]

NONE: Final = "<none>"
_MAX_VALUES: Final = 3
#: Columns with the format "name".
_NAMES: Final = ("Name", "Attacher")
#: Column descriptions, which are in the API response but not printed by kubectl.
_DESCRIPTIONS: Final = {
    "Name": "The name of the object, unique within its namespace.",
    "Age": "Time since the object was created.",
    "Status": "The state of the object.",
    "State": "A summary of the current state (allocated, pending, reserved, etc.).",
    "Ready": "Ready replicas or containers, and their desired number.",
    "Restarts": "Number of container restarts, and time since the last one.",
    "Node": "The node of the object.",
    "Devices": "The allocated devices of a claim; the number of devices in a slice.",
    "Driver": "The DRA driver of the devices.",
    "Pool": "The pool that the devices belong to.",
    "Free": "Devices in the slice that can be allocated.",
    "Used": "Devices in the slice that are allocated.",
    "Requests": "The requests of the claim with allocated devices.",
    "Reserved For": "Consumers for which the claim is reserved.",
    "Containers": "Names of the containers.",
    "Images": "Images of the containers.",
    "Selector": "The label selector of its pods.",
}


def columns(*names: str) -> tuple[Column, ...]:
    """Parse column definitions from their short form.

    >>> [(c.name, c.type, c.priority) for c in columns("Name", "Data:integer*")]
    [('Name', 'string', 0), ('Data', 'integer', 1)]
    """
    result = []
    for name in names:
        text, _, column_type = name.rstrip("*").partition(":")
        description = _DESCRIPTIONS.get(text, f"{text} of the object.")
        priority = 1 if name.endswith("*") else 0
        result.append(Column(text, column_type or "string", description, priority, "name" if text in _NAMES else ""))
    return tuple(result)


def table(row: Row, *names: str) -> TableConverter:
    """A table whose rows depend on the object only."""

    def cells(tree: Tree, now: str, reader: StoreReader) -> list[Any]:
        return row(tree, now)

    return TableConverter(columns(*names), cells)


# --- time ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def age(since: str | None, now: str) -> str:
    """The time since a timestamp, in at most two units.

    >>> age("2026-01-01T00:00:00Z", "2026-01-04T04:00:00Z"), age(None, "2026-01-01T00:00:00Z")
    ('3d4h', '<unknown>')
    """
    return duration(_seconds(now) - _seconds(since)) if since else "<unknown>"


def between(start: str, end: str) -> str:
    """The time between two timestamps."""
    return duration(_seconds(end) - _seconds(start))


def duration(seconds: float) -> str:
    """A duration in kubectl's format."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 120:
        return f"{max(total, 0)}s"
    minutes, hours = total // 60, total // 3600
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"


# --- objects ---------------------------------------------------------------------------------------------------------


def name_of(tree: Tree) -> str:
    return str(tree["metadata"].get("name") or "")


def age_of(tree: Tree, now: str) -> str:
    """The age column: the time since creation."""
    return age(tree["metadata"].get("creationTimestamp"), now)


def labels(values: Mapping[str, str] | None) -> str:
    """Labels as ``a=b,c=d``."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector(value: Tree | None) -> str:
    """A label selector in command-line syntax."""
    terms = [(key, f"{key}={text}") for key, text in ((value or {}).get("matchLabels") or {}).items()]
    for term in (value or {}).get("matchExpressions") or ():
        key, listed = term["key"], ",".join(sorted(term.get("values") or ()))
        text = {"In": f"{key} in ({listed})", "NotIn": f"{key} notin ({listed})", "Exists": key}.get(
            term["operator"], f"!{key}"
        )
        terms.append((key, text))
    return ",".join(text for _, text in sorted(terms)) or NONE


def shortened(values: Sequence[str], limit: int = _MAX_VALUES) -> str:
    """The first values of a list and the number of the others."""
    if not values:
        return NONE
    text = ",".join(values[:limit])
    return f"{text} + {len(values) - limit} more..." if len(values) > limit else text


def containers(pod_spec: Tree) -> list[str]:
    """The names and images of containers, as two cells."""
    items: Iterable[Tree] = pod_spec.get("containers") or ()
    return [",".join(item.get("name") or "" for item in items), ",".join(item.get("image") or "" for item in items)]
