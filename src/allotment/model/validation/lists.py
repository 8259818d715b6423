"""Validates lists, sets and maps: the number of items, each item, and unique keys.

If a list exceeds its limit, its items are not validated, so that a hostile object costs little. Duplicates are reported
after the errors of all items, at the later index. Errors of map keys are sorted by key; upstream's order is random.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from allotment.model.validation.errors import Errors, duplicate, too_many

T = TypeVar("T")


def check_list(items: Sequence[T], limit: int, check: Callable[[T, str], Errors], path: str) -> Errors:
    """Validate a list: at most ``limit`` items, each of them valid."""
    if len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    for index, item in enumerate(items):
        yield from check(item, f"{path}[{index}]")


def check_set(
    items: Sequence[T], limit: int | None, check: Callable[[T, str], Errors], key: Callable[[T], Hashable], path: str
) -> Errors:
    """Validate a list with unique keys. ``limit`` None: no limit."""
    yield from check_list(items, len(items) if limit is None else limit, check, path)
    if limit is None or len(items) <= limit:
        yield from duplicates([key(item) for item in items], path)


def duplicates(keys: Sequence[Hashable], path: str) -> Errors:
    """Report the later ones of equal keys."""
    seen: set[Hashable] = set()
    for index, key in enumerate(keys):
        if key in seen:
            yield duplicate(f"{path}[{index}]", key)
        seen.add(key)


def check_map(
    items: Mapping[str, T],
    limit: int | None,
    key_limit: int,
    check_key: Callable[[str, str], Errors],
    check_item: Callable[[T, str], Errors] | None,
    path: str,
) -> Errors:
    """Validate a map: keys (errors at ``path``) and values (errors at ``path[key]``, long keys shortened)."""
    if limit is not None and len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    for key in sorted(items):
        yield from check_key(key, path)
        if check_item is not None:
            yield from check_item(items[key], f"{path}[{shortened(key, key_limit)}]")


def shortened(text: str, limit: int) -> str:
    """Replace the middle of a text that is longer than ``limit`` by ``...``.

    >>> shortened("abcdefghijklmnopqrstuvwxyz", 16)
    'abcdefg...uvwxyz'
    """
    limit = max(limit, 16)
    if len(text) <= limit:
        return text
    shown_length = limit - 3
    return f"{text[: (shown_length + 1) // 2]}...{text[len(text) - shown_length // 2 :]}"
