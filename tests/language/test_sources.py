"""Texts and names are taken from files with their categories and lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.files import Hit, files_below, hits_in_file
from tests.language.word_list import searcher

PYTHON = '''"""A module that is told things."""  # asked in a comment

# A comment that is told
# over two lines: it was asked
# for.
ASKED = "told"  #: of an attribute


class Teller:
    """The reporter of somebody."""

    field: str
    """A field that nobody reads."""

    def going_by(self, unheard: int, *, fine: int = 0) -> dict[str, int]:
        """Plain."""
        text = f"{fine} nodes, {unheard} asked # no comment"
        other = (
            "a text over two lines that is "
            "told at the end"
        )
        self.seated = [berth for berth in (text, other)]
        return {"lodger": 1, "a key that is asked": 2}
'''

MARKDOWN = """# A heading that is told

A paragraph that goes on, and is
told on its second line: `told`, [told](told.md).

- one item is asked
  and told
- the next

```console
$ allot told
asked by a command
```

| asked | x |
"""

YAML = """# A comment that was
# asked for.
key: told  # at once
list:
- nobody
"""


def _found(path: Path, text: str) -> list[tuple[int, str, str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return sorted((hit.line, hit.category, hit.word) for hit in hits_in_file(path, searcher()))


def test_python_files(tmp_path: Path) -> None:
    assert _found(tmp_path / "turns.py", PYTHON) == [
        (1, "comment", "asked"),
        (1, "docstring", "told"),
        (1, "name", "turns"),
        (3, "comment", "told"),
        (4, "comment", "asked"),
        (6, "name", "ASKED"),
        (9, "name", "Teller"),
        (10, "docstring", "somebody"),
        (13, "docstring", "nobody"),
        (15, "name", "going_by"),
        (15, "name", "unheard"),
        (16, "docstring", "Plain."),
        (17, "message", "asked"),
        (20, "message", "told"),
        (22, "name", "berth"),
        (22, "name", "seated"),
        (23, "message", "asked"),
        (23, "name", "lodger"),
    ]


def test_a_phrase_may_be_broken_over_lines(tmp_path: Path) -> None:
    text = '# A reason for\n# ever.\nX = (\n    "for "\n    "want of devices"\n)\n'
    assert _found(tmp_path / "x.py", text) == [
        (1, "comment", "for\n# ever"[:3] + " ever"),
        (4, "message", "for want of"),
    ]


def test_pages(tmp_path: Path) -> None:
    assert _found(tmp_path / "page.md", MARKDOWN) == [
        (1, "docs", "told"),
        (4, "docs", "told"),
        (4, "docs", "told"),
        (6, "docs", "asked"),
        (7, "docs", "told"),
        (11, "docs", "told"),
        (12, "docs", "asked"),
        (15, "docs", "asked"),
    ]


def test_other_files(tmp_path: Path) -> None:
    assert [(line, word) for line, _, word in _found(tmp_path / "values.yaml", YAML)] == [
        (2, "asked"),
        (3, "at once"),
        (3, "told"),
        (5, "nobody"),
    ]


def test_packages_are_named_by_their_folder(tmp_path: Path) -> None:
    assert _found(tmp_path / "places" / "__init__.py", "") == [(1, "name", "places")]


def test_directories_are_searched_without_hidden_files_and_caches(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.md", "b/__pycache__/d.py", ".venv/e.py", "f.png", "g_pb2.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)] == ["a.py", "b/c.md"]
    assert list(files_below(tmp_path / "a.py")) == [tmp_path / "a.py"]


def test_python_that_cannot_be_parsed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        _found(tmp_path / "x.py", "def")


def test_a_hit_is_printed_with_its_place_and_what_to_use(tmp_path: Path) -> None:
    _found(tmp_path / "x.py", 'X = "Mended by hand"\n')
    (hit,) = hits_in_file(tmp_path / "x.py", searcher())
    assert isinstance(hit, Hit)
    assert str(hit).splitlines() == [
        f"{tmp_path}/x.py:1: message: “Mended”: use fix, repair (the option is --fix)", "    Mended by hand"
    ]  # fmt: skip
