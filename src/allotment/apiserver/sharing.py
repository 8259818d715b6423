"""Copies that share: what a writer took from the store as it is, stays the very same object.

Trees in the store are never changed, so parts of them may stand in many states. Whoever comes later in a write knows by
that: a part that is the stored one has been checked, defaulted, ordered and judged before.
"""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copied(tree: Any, stored: Any) -> Any:
    """A copy, for whoever gave the tree may change it; what it shares with the stored one is not copied."""
    if tree is stored:
        return tree
    if type(tree) is dict and type(stored) is dict:
        return {name: copied(value, stored.get(name)) for name, value in tree.items()}
    return tree if type(tree) in _PLAIN else _decode(_encode(tree))


_PLAIN = frozenset({str, int, bool, float, type(None)})
