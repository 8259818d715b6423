"""The catalog of served kinds: the built-in ones and those defined by CustomResourceDefinitions.

``Catalog.generation`` changes with the catalog, so that data derived from it can be invalidated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from allotment.apiserver.kinds.kind import ServedKind
from allotment.model.fields import TypeShape, shape_of


class Catalog:
    """Kinds by group, version and plural."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self._built_in = tuple(kinds)
        self._built_in_groups = {kind.group for kind in self._built_in}
        self._custom: dict[str, ServedKind] = {}
        self._served: dict[tuple[str, str, str], ServedKind] = {}
        #: Incremented with every change.
        self.generation = 0
        self._rebuild()

    def __iter__(self) -> Iterator[ServedKind]:
        yield from self._built_in
        yield from self._custom.values()

    @property
    def built_in(self) -> Sequence[ServedKind]:
        """The built-in kinds."""
        return self._built_in

    @property
    def custom(self) -> Sequence[ServedKind]:
        """The kinds defined by CustomResourceDefinitions."""
        return tuple(self._custom.values())

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        """The kind served under a path."""
        return self._served.get((group, version, plural))

    def knows(self, group: str, version: str) -> bool:
        """Whether any kind is served under a group and version, or under another version of a built-in group."""
        return group in self._built_in_groups or (group, version) in self._versions

    def named(self, api_version: str, name: str) -> ServedKind | None:
        """The kind with this apiVersion and kind name."""
        return self._names.get((api_version, name))

    def define(self, definition: str, kind: ServedKind | None) -> None:
        """Add or replace the kind of a CustomResourceDefinition; None removes it."""
        if kind is None:
            if self._custom.pop(definition, None) is None:
                return
        else:
            self._custom[definition] = kind
        self._rebuild()

    def _rebuild(self) -> None:
        self.generation += 1
        self._served = {(kind.group, version, kind.plural): kind for kind in self for version in kind.versions}
        self._versions = {(group, version) for group, version, _ in self._served}
        self._names = {
            (f"{kind.group}/{version}" if kind.group else version, kind.kind): kind
            for kind in self
            for version in kind.versions
        }


def api_version(kind: ServedKind, version: str) -> str:
    """The group and version as in ``apiVersion``: ``v1``, ``resource.k8s.io/v1`` …"""
    return f"{kind.group}/{version}" if kind.group else version


def is_custom(kind: ServedKind) -> bool:
    """Whether a CustomResourceDefinition defines the kind: list items keep their kind, and there are no merge keys."""
    return bool(kind.shapes)


def shape_in(kind: ServedKind, version: str) -> TypeShape:
    """The schema of a kind's objects in a version."""
    shape = kind.shapes.get(version) or shape_of(api_version(kind, version), kind.kind, kind.release)
    if shape is None:
        raise LookupError(f"{kind.kind} of {api_version(kind, version)} has no shape")
    return shape
