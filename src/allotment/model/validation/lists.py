"""Lists, sets and maps: how many items, each item valid, no key twice.

A list over its limit is reported as such and its items are not looked at, so that a hostile object costs little.
Duplicates come after the errors of all items, at the later index. Where several keys of a map are wrong, upstream's
order is chance; ours is that of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from allotment.model.validation.errors import Errors, duplicate, too_many

T = TypeVar("T")


def check_list(items: Sequence[T], limit: int, check: Callable[[T, str], Errors], path: str) -> Errors:
    """At most ``limit`` items, each valid."""
    if len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    for index, item in enumerate(items):
        yield from check(item, f"{path}[{index}]")


def check_set(
    items: Sequence[T], limit: int | None, check: Callable[[T, str], Errors], key: Callable[[T], Hashable], path: str
) -> Errors:
    """As a list, and no key twice. ``None`` as limit: as many as there are."""
    yield from check_list(items, len(items) if limit is None else limit, check, path)
    if limit is None or len(items) <= limit:
        yield from duplicates([key(item) for item in items], path)


def duplicates(keys: Sequence[Hashable], path: str) -> Errors:
    """The later ones of equal keys."""
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
    """Every key valid (reported at the map itself) and every value (at ``path[key]``, a long key shortened)."""
    if limit is not None and len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    for key in sorted(items):
        yield from check_key(key, path)
        if check_item is not None:
            yield from check_item(items[key], f"{path}[{shortened(key, key_limit)}]")


def shortened(text: str, limit: int) -> str:
    """A text with its middle left out if it is too long.

    >>> shortened("abcdefghijklmnopqrstuvwxyz", 16)
    'abcdefg...uvwxyz'
    """
    limit = max(limit, 16)
    if len(text) <= limit:
        return text
    kept = limit - 3
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"
