"""An in-memory StoreReader for tests of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.kinds.kind import ServedKind, User, Write
from allotment.apiserver.storage.store import Entry
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError

NOW = "2026-01-02T03:04:05Z"
FEATURES = Features("1.36")
KINDS = {kind.bucket: kind for kind in built_in_kinds(FEATURES)}


class Shelf:
    """A StoreReader with objects by bucket, namespace and name."""

    def __init__(self, objects: Iterable[tuple[str, Tree]] = ()) -> None:
        self._objects: dict[str, dict[tuple[str, str], Entry]] = {}
        self.revision = 0
        for bucket, tree in objects:
            self.put(bucket, tree)

    def put(self, bucket: str, tree: Tree) -> None:
        self.revision += 1
        meta = tree["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        self._objects.setdefault(bucket, {})[key] = Entry(*key, self.revision, tree, b"")

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        return self._objects.get(resource, {}).get((namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        found = self._objects.get(resource, {})
        return [found[key] for key in sorted(found) if namespace in (None, key[0])]


def suffixes() -> Callable[[], str]:
    numbers = count()
    return lambda: f"x{next(numbers):04}"


def write(reader: Shelf | None = None, namespace: str = "ns", subresource: str = "", user: str = "admin") -> Write:
    groups = ("system:masters", "system:authenticated") if user == "admin" else ("system:authenticated",)
    return Write(
        User(user, groups), reader if reader is not None else Shelf(), FEATURES, NOW, suffixes(), lambda text: None,
        namespace, "v1", subresource,
    )  # fmt: skip


def manifest(name: str = "x", **fields: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": "ns"}, **fields}


def created(bucket: str, tree: Tree, about: Write) -> tuple[Tree, list[str]]:
    """Apply the create rules of a kind; returns the object and its validation errors."""
    kind = KINDS[bucket]
    tree.setdefault("metadata", {}).setdefault("uid", "u-1")
    result = kind.rules.default(tree, None)
    result = kind.rules.admit(kind.rules.prepare_create(result, about), about)
    return result, shown(kind.rules.validate_create(result, about))


def updated(bucket: str, new: Tree, old: Tree, about: Write) -> tuple[Tree, list[str]]:
    """Apply the update rules of a kind; returns the object and its validation errors."""
    kind = KINDS[bucket]
    result = kind.rules.prepare_update(kind.rules.default(new, old), old, about)
    result = kind.rules.admit_update(result, old, about)
    return result, shown(kind.rules.validate_update(result, old, about))


def shown(errors: Iterable[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def row(kind: ServedKind | str, tree: Tree, reader: Shelf | None = None, now: str = NOW) -> dict[str, Any]:
    """The table row of an object, by column."""
    table = (KINDS[kind] if isinstance(kind, str) else kind).table
    assert table is not None
    cells = table.cells(tree, now, reader if reader is not None else Shelf())
    return dict(zip((column.name for column in table.columns), cells, strict=True))
