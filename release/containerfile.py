"""The Containerfile of a release, which installs the wheel next to it instead of the source tree."""

from __future__ import annotations

from release.source_tree import ROOT, ReleaseError

_FILE = ROOT / "deploy" / "Containerfile"


def containerfile(wheel: str) -> str:
    """The text of the file. ``wheel``: the name of the wheel."""
    text = _FILE.read_text(encoding="utf-8")
    for old, new in (
        ("-f deploy/Containerfile .", "."),
        ("COPY pyproject.toml README.md LICENSE ./\nCOPY src src\n", f"COPY {wheel} ./\n"),
        ('".[${EXTRAS}]"', f'"./{wheel}[${{EXTRAS}}]"'),
    ):
        if text.count(old) != 1:
            raise ReleaseError(f"deploy/Containerfile: expected {old!r} once")
        text = text.replace(old, new)
    return text
