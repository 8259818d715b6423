"""The pages link to each other, and the site contains all of them."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.docs.screens import DOCS, ROOT, anchors, documents, headings, links

HOME: Final = DOCS / "index.md"
TEXTS: Final = {page: page.read_text(encoding="utf-8") for page in documents()}
PAGES: Final = [page for page in TEXTS if page.is_relative_to(DOCS)]
with_source_links = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))["with_source_links"]


def _linked(page: Path) -> set[Path]:
    return {(page.parent / target).resolve() for target in links(TEXTS[page])}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_have_a_target(page: Path) -> None:
    assert [target.relative_to(ROOT) for target in _linked(page) if not target.exists()] == []
    for target, anchor in anchors(TEXTS[page]):
        expected = (page.parent / target).resolve() if target else page
        assert anchor in headings(TEXTS[expected]), f"{page.name} links to {target}#{anchor}"


def test_every_page_is_two_clicks_from_the_first() -> None:
    first = _linked(HOME)
    second = {target for page in first if page in TEXTS for target in _linked(page)}
    assert [page.relative_to(DOCS).as_posix() for page in PAGES if page not in {HOME, *first, *second}] == []


@pytest.mark.parametrize("kind", ["tutorials", "how-to", "reference", "explanation"])
def test_the_index_of_a_kind_links_to_all_its_pages(kind: str) -> None:
    index = DOCS / kind / "index.md"
    assert {page for page in PAGES if page.is_relative_to(DOCS / kind)} - _linked(index) == {index}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_one_title(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXTS[page], flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1


def test_the_readme_is_short() -> None:
    assert len(TEXTS[ROOT / "README.md"].splitlines()) <= 200


class _Loader(yaml.SafeLoader):
    """Reads the tags of MkDocs as nothing."""


_Loader.add_multi_constructor("", lambda loader, suffix, node: None)


def _targets(navigation: Any) -> Iterator[str]:
    match navigation:
        case str():
            yield navigation
        case dict():
            for target in navigation.values():
                yield from _targets(target)
        case list():
            for entry in navigation:
                yield from _targets(entry)


def test_the_navigation_of_the_site_contains_every_page() -> None:
    site = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_Loader)  # a subclass of SafeLoader
    listed = [target for target in _targets(site["nav"]) if not target.endswith("/")]
    assert len(listed) == len(set(listed))
    written = {page.relative_to(DOCS).as_posix() for page in PAGES if not page.is_relative_to(DOCS / "api")}
    assert set(listed) == written


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("", "driver.py, [lab](../reference/lab.md#data), [kind](https://k.io)"),
        (
            "https://a.example/b/",
            "[driver.py](https://a.example/b/blob/main/src/driver.py), [lab](../reference/lab.md#data), [kind](https://k.io)",
        ),
    ],
)
def test_links_to_source_files_lead_to_the_repository(repository: str, expected: str) -> None:
    text = "[driver.py](../../src/driver.py), [lab](../reference/lab.md#data), [kind](https://k.io)"
    assert with_source_links(text, "how-to/a.md", repository) == expected


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    mkdocs = ROOT / "build" / "docs" / "bin" / "mkdocs"
    if not mkdocs.is_file():
        pytest.skip("MkDocs is not installed: `make docs` installs it")
    built = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", tmp_path / "site"], cwd=ROOT, check=False, capture_output=True,
        text=True, timeout=280, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "how-to" / "cookbook" / "index.html").is_file()
