"""The bundle of the page: small, complete, without foreign addresses, and the same from the same sources."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FRONTEND: Final = ROOT / "frontend"
STATIC: Final = ROOT / "src/allotment/web/static"
#: The most bytes that the first page may transfer, without data, and that all files may have.
MAX_TRANSFERRED, MAX_SIZE = 150_000, 1_000_000
#: Names of XML namespaces look like addresses; nothing requests them.
_NAMESPACES: Final = ("http://www.w3.org/",)
_FOREIGN: Final = re.compile(rb"(?:https?:)?//[\w.-]+\.[a-z]{2,}[\w/.-]*", re.IGNORECASE)


@pytest.fixture
def modules() -> Path:
    """The installed packages of the frontend; skip the test without Node."""
    folder = FRONTEND / "node_modules"
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("NOT TESTED: Node is missing, which builds the page")
    if not (folder / "esbuild").is_dir():
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=FRONTEND, check=True
        )
    return folder


def contents(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def build(frontend: Path, output: Path) -> Mapping[str, bytes]:
    subprocess.run(["node", "build.mjs", str(output)], cwd=frontend, check=True, capture_output=True)
    return contents(output)


def test_the_bundle_is_built_from_the_sources_wherever_they_are(tmp_path: Path, modules: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(FRONTEND, copy, ignore=shutil.ignore_patterns("node_modules"))
    (copy / "node_modules").symlink_to(modules)
    assert build(FRONTEND, tmp_path / "one") == contents(STATIC), "make web builds the page again"
    assert build(copy, tmp_path / "two") == contents(STATIC)


def test_the_page_names_each_file_by_its_content() -> None:
    names = set(contents(STATIC))
    page = (STATIC / "index.html").read_text("utf-8")
    assert set(re.findall(r"/static/([\w.-]+)", page)) <= names
    assert {name.split("-")[0] for name in names} == {"app", "editor", "inter", "index.html", "LICENSES.txt"}


def test_no_file_names_another_site() -> None:
    for name, content in contents(STATIC).items():
        if name.endswith((".js", ".css", ".html")):
            found = [address.decode() for address in _FOREIGN.findall(content)]
            assert [address for address in found if not address.startswith(_NAMESPACES)] == [], name


def test_nothing_is_interpreted_as_markup_or_as_script() -> None:
    sources = [path.read_text("utf-8") for path in FRONTEND.glob("src/**/*.ts*")]
    assert not [
        text for text in sources if re.search(r"dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|eval\(", text)
    ]
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=", page)


def test_the_first_page_is_small() -> None:
    files = contents(STATIC)
    first = sum(
        len(gzip.compress(data)) for name, data in files.items() if name.startswith(("app-", "inter-", "index"))
    )
    assert first <= MAX_TRANSFERRED
    assert sum(map(len, files.values())) <= MAX_SIZE


def test_the_licenses_of_all_bundled_packages_are_included() -> None:
    text = (STATIC / "LICENSES.txt").read_text("utf-8")
    for package in ("preact", "@codemirror/view", "@lezer/common", "style-mod", "@fontsource-variable/inter"):
        assert re.search(rf"^{re.escape(package)} \d", text, re.MULTILINE), package


def test_the_units_of_the_page_pass(modules: Path) -> None:
    ran = subprocess.run(["npm", "run", "--silent", "test"], cwd=FRONTEND, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
