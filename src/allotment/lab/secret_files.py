"""Secret files that cannot be recomputed: created once, durably; a damaged file is an error.

Replacing a secret silently would invalidate tokens and the trust in an authority; starting with an empty key would
accept tokens that anyone can sign.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from allotment.files import atomic_write

_KEY_BYTES: Final = 32


class DamagedFile(Exception):
    """Raised for a file with invalid content. ``problem``: the file, what was expected and what was found."""

    def __init__(self, path: Path, expected: str, found: str, advice: str) -> None:
        self.problem = f"{path}: expected {expected}, found {found}"
        self.advice = advice
        super().__init__(f"{self.problem}: {advice}")


def read_or_create(
    path: Path, make: Callable[[], bytes], valid: Callable[[bytes], bool], expected: str, advice: str
) -> bytes:
    """Return the content of a file, created if missing. Raises DamagedFile if it is invalid, OSError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = make()
        atomic_write.replace(path, content)
    if not valid(content):
        raise DamagedFile(path, expected, f"{len(content)} bytes" if content else "an empty file", advice)
    return content


def accounts_key(path: Path) -> bytes:
    """Return the key that signs service account tokens, created if missing. Raises DamagedFile, OSError."""
    return read_or_create(
        path, lambda: os.urandom(_KEY_BYTES), lambda content: len(content) == _KEY_BYTES,
        f"a key of {_KEY_BYTES} bytes",
        "restore it from a backup, or remove it to create a new key, which invalidates earlier service account tokens",
    )  # fmt: skip
