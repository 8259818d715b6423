"""Describes objects of any kind field by field."""

from __future__ import annotations

import re
from typing import Any

from allotment.cli.describe.page import Page
from allotment.model.trees import Tree

_ACRONYMS = frozenset({"API", "URL", "UID", "OSB", "GUID"})
_PLAIN = re.compile(r"[A-Za-z-]+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|-")
_SHOWN_ABOVE = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})


def generic(page: Page, tree: Tree) -> None:
    """Describe all fields of an object, keys in order."""
    page.head(tree)
    metadata = {key: value for key, value in tree["metadata"].items() if key not in _SHOWN_ABOVE}
    _fields(page, 0, {**tree, "metadata": metadata})


def add_fields(page: Page, depth: int, tree: Tree) -> None:
    """Add the fields of a nested object."""
    _fields(page, depth, tree)


def _fields(page: Page, depth: int, tree: Tree) -> None:
    for key in sorted(tree):
        value = tree[key]
        if isinstance(value, dict):
            page.line(depth, f"{label(key)}:")
            _fields(page, depth + 1, value)
        elif isinstance(value, list):
            page.line(depth, f"{label(key)}:")
            for item in value:
                if isinstance(item, dict):
                    _fields(page, depth + 1, item)
                else:
                    page.line(depth + 1, _text(item))
        else:
            page.field(depth, label(key), _text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def label(key: str) -> str:
    """Return a field's name as words; keys that are not plain names are unchanged.

    >>> label("deviceClassName"), label("uid"), label("example.com/x")
    ('Device Class Name', 'UID', 'example.com/x')
    """
    if not _PLAIN.fullmatch(key):
        return key
    words = _WORDS.findall(key)
    return " ".join(word.upper() if word.upper() in _ACRONYMS else word[:1].upper() + word[1:] for word in words)
