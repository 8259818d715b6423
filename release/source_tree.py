"""The source tree of a release: its version, its time and its tag."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_VERSION_FILE: Final = ROOT / "src" / "allotment" / "__init__.py"
#: The earliest time that zip archives can express, plus a day for time zones: used outside of git.
_EARLIEST: Final = 315_619_200


class ReleaseError(Exception):
    """Raised if the source tree cannot be released; the text states what to change."""


def version() -> str:
    """The version of Allotment.

    It is a constant of the package and not computed from tags, because an image, an unpacked sdist and an archive of a
    commit are built without git. :func:`check_tag` compares it with the tag.
    """
    found = re.search(r'^__version__ = "(.+)"$', _VERSION_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError(f"{_VERSION_FILE}: expected a line __version__ = …")
    return found[1]


def timestamp() -> int:
    """The time of all files of the release, in seconds: ``$SOURCE_DATE_EPOCH``, or the time of the commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or _EARLIEST)


def check_tag() -> str:
    """The tag of the commit, or empty. Raises ReleaseError if the tag differs from the version or has no changes."""
    tags = _git("tag", "--points-at", "HEAD", "--list", "v[0-9]*").split()
    if not tags:
        return ""
    expected = f"v{version()}"
    if expected not in tags:
        raise ReleaseError(f"the commit has the tag {tags[0]}, but {_VERSION_FILE.relative_to(ROOT)} has {version()!r}")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version())}\]", changes, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md: expected a section {version()} for the tag {expected}")
    return expected


def _git(*arguments: str) -> str:
    """The output of git for this tree; empty if the tree is not a repository of its own."""
    try:
        inside = _run("rev-parse", "--show-toplevel")
        return _run(*arguments) if Path(inside).resolve() == ROOT else ""
    except (OSError, subprocess.CalledProcessError):
        return ""


def _run(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
