"""The interface of a subject."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Subject(Protocol):
    """The facts that a program printed, and the check of its files."""

    def printed(self, line: str) -> None:
        """The program printed a line."""
        ...

    def problem(self, folder: Path) -> str:
        """Continue with the files that a power cut left; return what was lost or is damaged, or an empty string."""
        ...
