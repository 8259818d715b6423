"""Abbreviates lists of names: ``gpu-0…7`` for eight devices, one product for all its partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBERED = re.compile(r"(.*?)([0-9]+)")


def kinds_of(kinds: Iterable[str]) -> str:
    """Return the products of devices; a common product is named once.

    >>> kinds_of(["NVIDIA A100 3g.40gb", "NVIDIA A100 1g.10gb", "Tesla T4"])
    'NVIDIA A100 3g.40gb + 1g.10gb, Tesla T4'
    """
    words: list[str] = []
    before = ""
    for kind in kinds:
        product, _, last = kind.rpartition(" ")
        if product and product == before:
            words[-1] += f" + {last}"
        else:
            words.append(kind)
        before = product
    return ", ".join(words)


def ranges(names: Sequence[str]) -> str:
    """Join names; consecutive numbers become a range.

    >>> ranges(["web-0", "web-1", "web-2", "db"])
    'web-0…2, db'
    """
    parts: list[tuple[str, int, int] | str] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        last = parts[-1] if parts else ""
        if match is None:
            parts.append(name)
        elif isinstance(last, tuple) and last[0] == match[1] and last[2] + 1 == int(match[2]):
            parts[-1] = (last[0], last[1], int(match[2]))
        else:
            parts.append((match[1], int(match[2]), int(match[2])))
    words = []
    for part in parts:
        if isinstance(part, str):
            words.append(part)
        else:
            stem, first, end = part
            words += [f"{stem}{first}…{end}"] if end > first + 1 else [f"{stem}{n}" for n in range(first, end + 1)]
    return ", ".join(words)
