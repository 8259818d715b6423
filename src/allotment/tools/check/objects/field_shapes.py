"""Documents and the shapes of their API types: the struct of a value, and the path of a v1 field as written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.fields import GROUP, TypeShape, shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.objects.api_versions import HUB
from allotment.tools.views import at, is_dra


class WrittenField(NamedTuple):
    """A field of a document: its Go struct, name, path and value; ``known``: whether the release has it."""

    struct: str
    name: str
    path: Path
    value: Any
    known: bool = True


def version_of(document: Document) -> str:
    """The version without the group: ``v1beta1``."""
    return document.api_version.rpartition("/")[2]


def shape_for(document: Document, release: str) -> TypeShape | None:
    """The shape for a document in a release: that of its version, if necessary of another release, or of v1."""
    shape = shape_of(document.api_version, document.kind, release) or shape_of(document.api_version, document.kind)
    if shape is None and is_dra(document):
        hub = f"{GROUP}/{HUB}"
        return shape_of(hub, document.kind, release) or shape_of(hub, document.kind)
    return shape


def written_fields(document: Document, release: str) -> Iterator[WrittenField]:
    """The fields of a document that are not null and that a release knows, or else the newest one; outer ones first."""
    shape = shape_for(document, release)
    newest = shape_of(document.api_version, document.kind)
    if shape is not None:
        yield from _walk(shape, newest or shape, document.tree, ())


def _walk(shape: TypeShape | None, newest: TypeShape | None, value: Any, path: Path) -> Iterator[WrittenField]:
    """The fields in a value. ``shape``: its type in the release, if the release knows it."""
    known = shape or newest
    if known is None:
        return
    if known.form == "struct" and isinstance(value, dict):
        for name, inner in value.items():
            field = shape.fields.get(name) if shape is not None else None
            other = newest.fields.get(name) if newest is not None else None
            if inner is not None and (field or other):
                yield WrittenField(known.bare_name, name, (*path, name), inner, field is not None)
                yield from _walk(field and field.shape, other and other.shape, inner, (*path, name))
    elif known.form in ("slice", "map") and isinstance(value, list if known.form == "slice" else dict):
        steps = enumerate(value) if isinstance(value, list) else value.items()
        for step, item in steps:
            yield from _walk(shape and shape.element, newest and newest.element, item, (*path, step))


def written_path(document: Document, path: Path) -> Path:
    """The path in the document of a path of the v1 shape, as far as it is written.

    Skips ``exactly`` and inserts ``basic`` as the document's version requires.
    """
    actual: list[str | int] = []
    tree: Any = document.tree
    for step in path:
        for steps in ((step,), ("basic", step)):
            inner = at(tree, steps)
            if inner is not None or (isinstance(tree, dict) and steps == (step,) and step in tree):
                actual += steps
                tree = inner
                break
        else:
            if step != "exactly":
                break
    return tuple(actual)
