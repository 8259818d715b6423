"""Secrets that cannot be computed again: each is made once, durably, and a damaged file is an error.

A lab that replaced one without a word would make what was given out on it invalid (tokens, trust in an authority); one
that started with an empty key would accept tokens that anyone can sign.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from allotment.files import atomic_write


class DamagedFile(Exception):
    """A file has another content than a lab writes. ``problem``: the file, what is expected and what was found."""

    def __init__(self, path: Path, expected: str, found: str, advice: str) -> None:
        self.problem = f"{path}: expected {expected}, found {found}"
        self.advice = advice
        super().__init__(f"{self.problem}: {advice}")


def read_or_create(
    path: Path, make: Callable[[], bytes], valid: Callable[[bytes], bool], expected: str, advice: str
) -> bytes:
    """The content of a file, made if the file does not exist. Raises DamagedFile if it is not valid, OSError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = make()
        atomic_write.replace(path, content)
    if not valid(content):
        raise DamagedFile(path, expected, f"{len(content)} bytes" if content else "an empty file", advice)
    return content
