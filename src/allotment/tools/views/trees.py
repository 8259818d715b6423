"""Lenient access to trees of any content: missing values and values of the wrong type are empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.model.fields import GROUP
from allotment.model.loading import Document
from allotment.model.loading.marks import at as at
from allotment.model.meta import ObjectKey


def is_dra(document: Document) -> bool:
    """Whether a document is of the group ``resource.k8s.io``, in any version."""
    return document.api_version.partition("/")[0] == GROUP


def key_of(document: Document, namespace: str = "default") -> ObjectKey:
    """Namespace and name of a namespaced object."""
    written = text(mapping(document.tree.get("metadata")).get("namespace"))
    return ObjectKey(written or namespace, document.name)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings in a list, with their indexes."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, dict):
                yield number, item


def strings(value: Any) -> tuple[str, ...]:
    """The strings in a list."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def text(value: Any) -> str:
    """The value if it is a string, otherwise an empty one."""
    return value if isinstance(value, str) else ""
