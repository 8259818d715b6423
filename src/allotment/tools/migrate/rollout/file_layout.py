"""The paths of new files and original files in the output folder of a migration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

ROLLBACK: Final = "rollback"
#: kubectl skips files with unknown extensions when it applies a folder recursively.
BEFORE: Final = ".before"
RUNBOOK: Final = "README.md"


class FilePaths(NamedTuple):
    """Paths below the folder. ``new``: of every file; ``old``: of the originals of changed files."""

    new: Mapping[str, str]
    old: Mapping[str, str]


def file_paths(names: Mapping[str, str], changed: Mapping[str, str]) -> FilePaths:
    """The paths for files with these names below the folder; ``changed``: the original texts of changed files."""
    return FilePaths(dict(names), {file: f"{ROLLBACK}/{names[file]}{BEFORE}" for file in changed if file in names})
