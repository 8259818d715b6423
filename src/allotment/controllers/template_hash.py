"""Short hash of a pod template, valid in names and labels."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

#: Without vowels and digits that look like letters, so that no rude or ambiguous words result.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def template_hash(template: Any, collisions: int | None = None) -> str:
    """Ten characters for a template; different ones for each collision count.

    >>> template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1}) != template_hash({"a": 1, "b": 2}, 1)
    True
    """
    content = msgspec.json.encode([template, collisions or 0], order="deterministic")
    number = int.from_bytes(hashlib.blake2b(content, digest_size=16).digest())
    characters = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[index])
    return "".join(characters)
