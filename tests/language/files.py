"""The words to avoid in files: which files are read, and as what.

Code that is generated from protocols, and the word list itself, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.language.passages import Locator, Passage
from tests.language.python_source import Name, PythonSource
from tests.language.text_source import line_passages, markdown_passages
from tests.language.word_list import ROOT, SOURCE, Avoid, Category, Searcher

#: Everything that users and contributors read, except tests.
READ_BY_PEOPLE: Final = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "Makefile", "pyproject.toml",
    ".pre-commit-hooks.yaml", "action.yml", "docs", "deploy", "release", "src",
)  # fmt: skip
_LEFT_OUT: Final = (
    "docs/reference/glossary.md", SOURCE.relative_to(ROOT).as_posix(), "src/allotment/web/static/",
)  # fmt: skip
#: Names in JSON output, which are public and do not change.
_SCHEMAS: Final = "docs/reference/schemas/"
_FROM_PROTOCOLS: Final = ("_pb2.py", "_pb2_grpc.py")
_SUFFIXES: Final = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".tpl", ".txt", ".proto", ".sh", ""}
_CONTEXT: Final = 40


class Hit(NamedTuple):
    """A word to avoid: where it is, the word with its context, and the entry of the list."""

    path: str
    line: int
    category: Category
    word: str
    context: str
    avoid: Avoid

    def __str__(self) -> str:
        note = f" ({self.avoid.note})" if self.avoid.note else ""
        context = f"\n    {self.context}" if self.context else ""
        return f"{self.path}:{self.line}: {self.category}: “{self.word}”: use {self.avoid.use}{note}{context}"


def files_below(path: Path) -> Iterator[Path]:
    """The files to check at or below a path."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(path).parts)
        left_out = hidden or file.name.endswith(_FROM_PROTOCOLS) or shown(file).startswith((*_LEFT_OUT, _SCHEMAS))
        if file.suffix in _SUFFIXES and not left_out and file.is_file():
            yield file


def shown(path: Path) -> str:
    """The path relative to the root of the project, or as it is if it is elsewhere."""
    absolute = path.absolute()
    return absolute.relative_to(ROOT).as_posix() if absolute.is_relative_to(ROOT) else str(path)


def hits_in_file(path: Path, searcher: Searcher) -> list[Hit]:
    """The words to avoid in a file. Raises SyntaxError for Python that cannot be parsed."""
    text, name = path.read_text(encoding="utf-8"), shown(path)
    if path.suffix == ".py":
        source = PythonSource(text)
        names = [_module_name(path), *source.names()]
        return [*hits_in_passages(name, source.lines, source.passages(), searcher), *_in_names(name, names, searcher)]
    lines = text.splitlines()
    category = _category(name)
    passages = markdown_passages(lines, category) if path.suffix == ".md" else line_passages(lines, category)
    return list(hits_in_passages(name, lines, passages, searcher))


def hits_in_passages(name: str, lines: Sequence[str], passages: Iterable[Passage], searcher: Searcher) -> Iterator[Hit]:
    """The words to avoid in the passages of a text with these lines."""
    for passage in passages:
        locator: Locator | None = None
        for avoid, start, end in searcher.in_prose(passage.text, passage.category):
            locator = locator or Locator(lines, passage)
            word = passage.text[start:end]
            context = passage.text[max(0, start - _CONTEXT) : end + _CONTEXT]
            yield Hit(name, locator.line_of(word), passage.category, word, context, avoid)


def _in_names(path: str, names: Iterable[Name], searcher: Searcher) -> Iterator[Hit]:
    for name in names:
        if avoid := searcher.in_name(name.name, name.kind):
            yield Hit(path, name.line, "name", name.name, "", avoid)


def _module_name(path: Path) -> Name:
    return Name(path.parent.name if path.name == "__init__.py" else path.stem, "module", 1)


def _category(name: str) -> Category:
    if name.startswith("src/"):
        return "message"  # data that commands print
    if name.startswith("deploy/") or name == "Makefile":
        return "deploy"
    return "docs" if name.endswith(".md") else "comment"
