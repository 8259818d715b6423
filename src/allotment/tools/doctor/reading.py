"""From trees, as a server or a file shows them, to the values of an examination.

An API server has judged the objects already, perhaps a newer one than we know: what is unknown is left out. An object
that makes no sense all the same costs only itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from allotment.model.core import Pod
from allotment.model.meta import Object
from allotment.model.quantity import QuantityError
from allotment.model.trees import Tree, read_value
from allotment.model.versions import to_v1
from allotment.tools.doctor.objects import TYPES


class ReadObjects(NamedTuple):
    """The values, in the order of trees but for pods, which stand first by priority and age, as they are scheduled.

    ``failed``: objects that cannot be read, and why.
    """

    values: tuple[Object, ...]
    failed: tuple[str, ...] = ()


def read_objects(trees: Iterable[Tree]) -> ReadObjects:
    """The values of trees; kinds that nobody here looks at are left out."""
    values: list[Object] = []
    failed: list[str] = []
    for tree in trees:
        kind = str(tree.get("kind", ""))
        wanted = TYPES.get((str(tree.get("apiVersion", "")).rpartition("/")[0], kind))
        if wanted is None:
            continue
        try:
            values.append(read_value(to_v1(tree), wanted))
        except (msgspec.ValidationError, QuantityError) as error:
            failed.append(f"{kind} {_name(tree)}: {error}")
    return ReadObjects(tuple(sorted(values, key=_order)), tuple(failed))


def _name(tree: Tree) -> str:
    metadata = tree.get("metadata") or {}
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part)) or "without a name"


def _order(value: Object) -> tuple[int, str]:
    if not isinstance(value, Pod):
        return (-(2**31), "")
    return (-(value.spec.priority or 0), value.metadata.creation_timestamp or "")
