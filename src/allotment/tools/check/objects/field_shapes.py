"""Documents and the shapes of their API types: the struct of a value, and the path of a v1 field as written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.fields import TypeShape, shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.objects.api_versions import HUB, VERSIONS
from allotment.tools.views import at, is_dra


class WrittenField(NamedTuple):
    """A field of a document: its Go struct, name, path and value."""

    struct: str
    name: str
    path: Path
    value: Any


def version_of(document: Document) -> str:
    """The version without the group: ``v1beta1``."""
    return document.api_version.rpartition("/")[2]


def shape_for(document: Document) -> TypeShape | None:
    """The shape for a document: that of its version, or of v1 if the version never existed."""
    shape = shape_of(document.api_version, document.kind)
    if shape is None and is_dra(document) and HUB in VERSIONS.get(document.kind, {}):
        return shape_of(f"resource.k8s.io/{HUB}", document.kind)
    return shape


def shape_at(shape: TypeShape | None, path: Path) -> TypeShape | None:
    """The shape of a valid value at a path; None if the path is not valid."""
    for step in path:
        if shape is None:
            return None
        if shape.form == "struct":
            field = shape.fields.get(str(step))
            shape = field.shape if field else None
        else:
            shape = shape.element
    return shape


def written_fields(document: Document) -> Iterator[WrittenField]:
    """All known fields of a document that are not null, outer fields first."""
    shape = shape_for(document)
    if shape is not None:
        yield from _walk(shape, document.tree, ())


def _walk(shape: TypeShape, value: Any, path: Path) -> Iterator[WrittenField]:
    if shape.form == "struct" and isinstance(value, dict):
        for name, inner in value.items():
            field = shape.fields.get(name)
            if field is not None and inner is not None:
                yield WrittenField(shape.bare_name, name, (*path, name), inner)
                yield from _walk(field.shape, inner, (*path, name))
    elif shape.element is not None and shape.form == "slice" and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _walk(shape.element, item, (*path, number))
    elif shape.element is not None and shape.form == "map" and isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(shape.element, item, (*path, key))


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
