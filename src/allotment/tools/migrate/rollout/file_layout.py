"""Where the files of a migration lie below its folder: the new ones, and those that changed as they were before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

ROLLBACK: Final = "rollback"
#: kubectl passes over files of other endings when it applies a folder with all below it.
BEFORE: Final = ".before"
RUNBOOK: Final = "README.md"


class Places(NamedTuple):
    """``new``: of every file its name below the folder; ``old``: of those that changed, that of the text before."""

    new: Mapping[str, str]
    old: Mapping[str, str]


def places_of(names: Mapping[str, str], changed: Mapping[str, str]) -> Places:
    """The places of files by the names that they have below the folder; ``changed`` are the texts before."""
    return Places(dict(names), {file: f"{ROLLBACK}/{names[file]}{BEFORE}" for file in changed if file in names})
