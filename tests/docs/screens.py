"""Keeps the screens that the documentation shows true: ``python -m tests.docs.screens`` writes them anew.

In a page, a fenced ``console`` block holds commands (``$ allot …``) with their output. A ``yaml`` block whose first
line is ``# name.yaml`` is a file of that name for the commands after it. A line ``…`` stands for lines left out; as
many lines as stand around it in the page are kept when it is written anew. Commands other than ``allot`` (and
``make demo``, which is ``allot demo``) are left as they stand. ``reasons.md`` is generated from the table of codes.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from allotment.cli.main import main
from allotment.engine import refusal

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "cookbook.md")
REASONS = ROOT / "docs" / "reasons.md"

_BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.yaml)\n")
LEFT_OUT = "…"


def run(command: str) -> list[str]:
    """What a command prints, errors included, as lines of a screen of 80 columns."""
    out = io.StringIO()
    arguments = ["allot", "demo"] if command == "make demo" else shlex.split(command)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        main(arguments[1:])
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _is_ours(command: str) -> bool:
    return command == "make demo" or command.startswith("allot ")


def _commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the output that the page shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def _anew(command: str, shown: list[str]) -> list[str]:
    if not _is_ours(command):
        return shown
    found = run(command)
    if LEFT_OUT not in shown:
        return found
    before = shown.index(LEFT_OUT)
    after = len(shown) - before - 1
    return [*found[:before], LEFT_OUT, *found[len(found) - after :]]


def page_anew(text: str) -> str:
    """A page with every screen as the command prints it now."""

    def block_anew(match: re.Match[str]) -> str:
        kind, block = match.groups()
        if kind == "yaml":
            if file := _FILE.match(block):
                Path(file[1]).write_text(block, encoding="utf-8")
            return match[0]
        lines = [line for command, shown in _commands(block) for line in (f"$ {command}", *_anew(command, shown))]
        return "\n".join(["```console", *lines, "```"])

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return _BLOCK.sub(block_anew, text)


def links(text: str) -> list[str]:
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    return [target for target in targets if "://" not in target]


def write() -> None:
    """Bring every page up to date."""
    os.environ["COLUMNS"] = "80"
    for page in PAGES:
        page.write_text(page_anew(page.read_text(encoding="utf-8")), encoding="utf-8")
    REASONS.write_text(refusal.page(), encoding="utf-8")


if __name__ == "__main__":
    write()
