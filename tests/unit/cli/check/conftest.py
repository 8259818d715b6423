"""Rules for these tests only, so that outputs do not change with the real ones, and a directory for manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from allotment.model.editing.edits import Nest, ReplaceText, SetValue
from allotment.tools.check import catalog
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch

BAD = "spec: {}\n"


def old_names(bundle: Bundle) -> Iterator[RuleMatch]:
    """Find errors with a safe fix."""
    for document in bundle.documents:
        if document.name == "old":
            fix = Fix("call it new", ((document, SetValue(("metadata", "name"), "new")),), safe=True)
            yield RuleMatch(document, ("metadata", "name"), "`old` is an old name", fix=fix)


def flat(bundle: Bundle) -> Iterator[RuleMatch]:
    """Find errors with a safe fix that adds a line."""
    for document in bundle.documents:
        if "flat" in document.tree:
            fix = Fix("nest it", ((document, Nest((), ("flat",), "nested")),), safe=True)
            yield RuleMatch(document, ("flat",), "`flat` is not nested", fix=fix)


def guesses(bundle: Bundle) -> Iterator[RuleMatch]:
    """Find warnings with an unsafe fix, on a part of a string."""
    for document in bundle.documents:
        note = document.tree.get("note")
        if isinstance(note, str) and (at := note.find("gues")) >= 0 and not note.startswith("guess", at):
            part = (at, at + 4)
            fix = Fix(
                "write guess, which is nearest", ((document, ReplaceText(("note",), *part, "guess")),), safe=False
            )
            yield RuleMatch(
                document, ("note",), 'unknown word "gues". Did you mean "guess"?', "words have a meaning that"
                " others must know, too, or they are of no use to readers", fix, span=part,
            )  # fmt: skip


def empty(bundle: Bundle) -> Iterator[RuleMatch]:
    """Find notes without a fix, on a value of several lines."""
    for document in bundle.documents:
        if document.tree.get("spec") == {}:
            yield RuleMatch(document, ("kind",), "nothing is specified", at_key=True)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the real rules by those of these tests."""
    rules = (
        Rule("S191", "old-name", "shape", "error", "An old name.", "A toy.", BAD, BAD, old_names, "safe"),
        Rule("S192", "flat", "shape", "error", "Not nested.", "A toy.", BAD, BAD, flat, "safe"),
        Rule("V391", "unknown-word", "vocabulary", "warning", "No word.", "A toy.", BAD, BAD, guesses, "unsafe"),
        Rule(
            "M491", "empty", "meaning", "note", "Nothing in it.", "A toy.", BAD, BAD, empty, see="https://example.com"
        ),
    )
    _forget()
    monkeypatch.setattr(catalog, "RULES", rules)
    yield
    _forget()


def _forget() -> None:
    catalog.all_rules.cache_clear()
    catalog.rules_by_code.cache_clear()


Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write files to a directory, and make it the current one."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def put(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return folder

    return put


@pytest.fixture
def at_80(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Set the width of the terminal to 80 columns."""
    return lambda: monkeypatch.setenv("COLUMNS", "80")
