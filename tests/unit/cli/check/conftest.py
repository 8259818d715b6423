"""Rules for these tests only, so that outputs do not change with the real ones; a folder to write manifests in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from allotment.model.editing.edits import ReplaceText, SetValue
from allotment.tools.check import catalog
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch

BAD = "spec: {}\n"


def old_names(bundle: Bundle) -> Iterator[RuleMatch]:
    """A safe fix, an error."""
    for document in bundle.documents:
        if document.name == "old":
            fix = Fix("call it new", ((document, SetValue(("metadata", "name"), "new")),), safe=True)
            yield RuleMatch(document, ("metadata", "name"), "`old` is an old name", fix=fix)


def guesses(bundle: Bundle) -> Iterator[RuleMatch]:
    """An unsafe fix, a warning, on a part of a string."""
    for document in bundle.documents:
        note = document.tree.get("note")
        if isinstance(note, str) and (at := note.find("gues")) >= 0 and not note.startswith("guess", at):
            part = (at, at + 4)
            fix = Fix(
                "write guess, which is nearest", ((document, ReplaceText(("note",), *part, "guess")),), safe=False
            )
            yield RuleMatch(
                document, ("note",), 'nobody knows a word "gues". Did you mean "guess"?', "words have a meaning that"
                " others must know, too, or they are of no use to anybody", fix, span=part,
            )  # fmt: skip


def empty(bundle: Bundle) -> Iterator[RuleMatch]:
    """No fix, a note, on a value of several lines."""
    for document in bundle.documents:
        if document.tree.get("spec") == {}:
            yield RuleMatch(document, ("kind",), "nothing is specified", at_key=True)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rules of these tests instead of the real ones."""
    rules = (
        Rule("S191", "old-name", "shape", "error", "An old name.", "A toy.", BAD, BAD, old_names, "safe"),
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
    """Put files into a folder and go there."""
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
    """A screen of 80 columns, from here on."""
    return lambda: monkeypatch.setenv("COLUMNS", "80")
