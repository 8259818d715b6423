"""Changes of a cluster's objects, as its watches report them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from allotment.model.meta import Object, ObjectKey
from allotment.model.server_facts import ServerFacts
from allotment.model.trees import to_tree
from allotment.watched.builder import Changes
from allotment.watched.keyed_objects import packed
from allotment.watched.kinds import KINDS

FACTS: Final = ServerFacts(version="v1.36.0", served={"resourceslices": ("v1",)})
_BY_TYPE: Final = {kind.type: kind for kind in KINDS}
_NUMBERS: Final = count(1)


def changes(steps: Iterable[tuple[ObjectKey, type[Object], Object | None]]) -> Changes:
    """Objects that changed, by key and type; None stands for a deletion."""
    return {(_BY_TYPE[type], key): _written(value) if value is not None else None for key, type, value in steps}


def created(*values: Object) -> Changes:
    """Objects that are new."""
    return changes((value.key, type(value), value) for value in values)


def _written(value: Object) -> bytes:
    tree = to_tree(value, "v1", type(value).__name__)
    tree["metadata"] |= {"resourceVersion": str(next(_NUMBERS))}
    return packed(tree)
