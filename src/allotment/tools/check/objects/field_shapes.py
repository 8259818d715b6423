"""Documents against the table of fields: which struct a value is, and where what v1 calls so was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.fields import Shape, shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.objects.api_versions import HUB, VERSIONS
from allotment.tools.views import at, is_dra


class FieldSeen(NamedTuple):
    """A field that a document has: the Go struct it is of, its name, path and value."""

    struct: str
    name: str
    path: Path
    value: Any


def version_of(document: Document) -> str:
    """The version without the group: ``v1beta1``."""
    return document.api_version.rpartition("/")[2]


def shape_for(document: Document) -> Shape | None:
    """The shape that a document is held to: that of its version, or of v1 where its version never was."""
    shape = shape_of(document.api_version, document.kind)
    if shape is None and is_dra(document) and HUB in VERSIONS.get(document.kind, {}):
        return shape_of(f"resource.k8s.io/{HUB}", document.kind)
    return shape


def shape_at(shape: Shape | None, path: Path) -> Shape | None:
    """The shape of what belongs at a path; None where nothing does."""
    for step in path:
        if shape is None:
            return None
        if shape.form == "struct":
            field = shape.fields.get(str(step))
            shape = field.shape if field else None
        else:
            shape = shape.element
    return shape


def fields_seen(document: Document) -> Iterator[FieldSeen]:
    """Every known field that a document has and that is not null, outer ones first."""
    shape = shape_for(document)
    if shape is not None:
        yield from _seen(shape, document.tree, ())


def _seen(shape: Shape, value: Any, path: Path) -> Iterator[FieldSeen]:
    if shape.form == "struct" and isinstance(value, dict):
        for name, inner in value.items():
            field = shape.fields.get(name)
            if field is not None and inner is not None:
                yield FieldSeen(shape.bare_name, name, (*path, name), inner)
                yield from _seen(field.shape, inner, (*path, name))
    elif shape.element is not None and shape.form == "slice" and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _seen(shape.element, item, (*path, number))
    elif shape.element is not None and shape.form == "map" and isinstance(value, dict):
        for key, item in value.items():
            yield from _seen(shape.element, item, (*path, key))


def written(document: Document, path: Path) -> Path:
    """Where a path of the v1 shape was written; as far as it was.

    ``exactly`` is stepped over and ``basic`` stepped into where the document's version has it so.
    """
    found: list[str | int] = []
    tree: Any = document.tree
    for step in path:
        for taken in ((step,), ("basic", step)):
            inner = at(tree, taken)
            if inner is not None or (isinstance(tree, dict) and taken == (step,) and step in tree):
                found += taken
                tree = inner
                break
        else:
            if step != "exactly":
                break
    return tuple(found)
