"""``docs/try-driver.md``, by hand: its commands on a real plane with the kubelet's own code print what the page shows.

``python -m tests.kube.test_try_driver`` writes the page anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from allotment.model.trees import Tree
from tests.docs import screens
from tests.kube.host import NODE, Host, real_plane, running, short_folder

PAGE: Final = screens.ROOT / "docs" / "try-driver.md"
_COMMAND: Final = re.compile(r"allot (driver run nvidia --simulate \S+) --node-name (\S+)")
_SPEC: Final = re.compile(r"(```json\n# \S+\n)(.*?)(```\n)", re.DOTALL)
#: UIDs; and the version of the format, for names that begin with a digit need a newer one.
_CHANCE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0\.[35]\.0")
_FOLDERS: Final = {"/var/lib/kubelet": "", "/var/run/cdi": "/cdi"}


@contextmanager
def _at_the_node(text: str) -> Iterator[Host]:
    """The driver as the page starts it, where the page's other commands find the cluster."""
    found = _COMMAND.search(text)
    assert found is not None
    assert found[2] == NODE
    with real_plane([]) as kube, short_folder() as folder:
        words = ("allotment.cli.main", *shlex.split(found[1]))
        with running(kube, words, folder) as host:
            host.until(lambda: "registered" in (folder / "driver.err").read_text())
            yield host


def page_anew(text: str) -> tuple[str, list[Tree]]:
    """The page with every screen as it is now, and the CDI files that were there while its pod ran."""
    specs: list[Tree] = []
    with _at_the_node(text) as host:
        here = {path: f"{host.folder}{below}" for path, below in _FOLDERS.items()}
        verify = "$ allot driver verify "  # which looks for CDI files where runtimes do
        here[verify] = f"{verify}--cdi-root {host.folder}/cdi "

        def seen() -> None:
            specs.extend(host.specs())

        anew = screens.page_anew(_replaced(text, here), kubeconfig=host.kube.kubeconfig, before={"allot driver": seen})
        anew = _replaced(anew, {found: path for path, found in here.items()})
    return anew, specs


def _replaced(text: str, paths: dict[str, str]) -> str:
    # The longer first: one is below the other.
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, paths[path])
    return text


def _spec_anew(text: str, specs: list[Tree]) -> str:
    """The page with the CDI file that there is, if it differs by more than chance."""
    (spec,) = specs
    shown = _SPEC.search(text)
    assert shown is not None
    found = json.dumps(spec, indent=2) + "\n"
    same = _CHANCE.sub("*", shown[2]) == _CHANCE.sub("*", found)
    return text if same else _SPEC.sub(lambda match: f"{match[1]}{found}{match[3]}", text)


def test_the_page_shows_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = PAGE.read_text(encoding="utf-8")
    if missing := screens.clients_of(text):
        pytest.skip(f"{' and '.join(sorted(missing))} not there: `make clients` brings them")
    anew, specs = page_anew(text)
    told = "out of date; `python -m tests.kube.test_try_driver` writes it anew"
    assert anew == text, f"{PAGE.name} is {told}"
    assert _spec_anew(anew, specs) == text, f"{PAGE.name} is {told}"


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    before = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_spec_anew(*page_anew(before)), encoding="utf-8")
