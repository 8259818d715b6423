"""The pictures of the page: light and dark, small, with a description, and none that is not used."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from PIL import Image

from tests.docs.pictures import FOLDER, MOST_BYTES, PICTURES, THEMES
from tests.docs.screens import ROOT, documents

with_theme_pictures = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))["with_theme_pictures"]

_BLOCK: Final = re.compile(r"<picture>.*?</picture>", re.DOTALL)
_FORM: Final = re.compile(r"!\[(?P<alt>.+)\]\((?P<light>\S+)#only-light\)\n!\[(?P=alt)\]\((?P<dark>\S+)#only-dark\)")


class _PictureUse(NamedTuple):
    page: Path
    alt: str
    files: tuple[Path, ...]


def _shown() -> list[_PictureUse]:
    found = []
    for page in documents():
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            form = _FORM.fullmatch(with_theme_pictures(block))
            assert form, f"{page.name}: the site does not understand {block}"
            files = tuple((page.parent / form[theme]).resolve() for theme in THEMES)
            found.append(_PictureUse(page, form["alt"], files))
    return found


SHOWN: Final = _shown()


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.page.name}-{shown.files[0].stem}")
def test_a_picture_is_shown_in_the_theme_of_the_reader(shown: _PictureUse) -> None:
    name = shown.files[0].stem.removesuffix("-light")
    assert [file.name for file in shown.files] == [f"{name}-{theme}.webp" for theme in THEMES]
    assert all(file.is_file() for file in shown.files)
    assert len(shown.alt) > 40, "the text must say what the picture shows"


def test_every_picture_is_used_and_can_be_taken_again() -> None:
    used = {file for shown in SHOWN for file in shown.files}
    assert used == set(FOLDER.iterdir())
    assert used == {FOLDER / f"{name}-{theme}.webp" for name in PICTURES for theme in THEMES}


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_a_picture_is_small(path: Path) -> None:
    assert path.stat().st_size <= MOST_BYTES
    with Image.open(path) as picture:
        assert picture.width == 1280
