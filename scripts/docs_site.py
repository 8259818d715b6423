"""Hooks of MkDocs for `make docs`: links to files outside docs/, pictures in the reader's theme, and the pages of the
Python API in the navigation."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*'
    r'<img alt="([^"]+)" src="([^"]+)">\s*</picture>'
)
_API = "api/"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace the entry of a folder in the navigation with its pages, the index first."""
    config.nav = [_with_pages(entry, Path(config.docs_dir)) for entry in config.nav or ()]
    return config


def _with_pages(entry: dict[str, object], docs: Path) -> dict[str, object]:
    [(title, target)] = entry.items()
    if target != _API:
        return entry
    names = sorted((page.name for page in (docs / _API).glob("*.md")), key=lambda name: (name != "index.md", name))
    return {title: [f"{_API}{name}" for name in names]}


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Return the text of a page for the site: see `with_source_links` and `with_theme_pictures`."""
    return with_source_links(with_theme_pictures(markdown), page.file.src_uri, config.repo_url)


def with_theme_pictures(text: str) -> str:
    """Replace pictures as GitHub shows them, light and dark, with images of which the site shows that of its theme."""
    return _PICTURE.sub(r"![\2](\3#only-light)\n![\2](\1#only-dark)", text)


def with_source_links(text: str, path: str, repository: str | None) -> str:
    """Replace links that leave docs/ with links to the repository, or with their text if its address is unknown."""

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), link[2]))
        if target.startswith("docs/"):
            return link[0]
        return f"[{link[1]}]({repository.rstrip('/')}/blob/main/{target})" if repository else link[1]

    return _LINK.sub(replaced, text)
