"""The manual steps of ``docs/how-to/try-driver.md`` on a real control plane with the kubelet's own code print what the
page shows.

``python -m tests.kube.test_try_driver`` updates the page.
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
from tests.kube.host import NODE, Host, control_plane_with_node, running_host, short_folder

PAGE: Final = screens.ROOT / "docs" / "how-to" / "try-driver.md"
_COMMAND: Final = re.compile(r"allot (driver run nvidia --simulate \S+) --node-name (\S+)")
_SPEC: Final = re.compile(r"(```json\n# \S+\n)(.*?)(```\n)", re.DOTALL)
#: UIDs, and the version of the format: names that begin with a digit need a newer one.
_GENERATED: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0\.[35]\.0")
_FOLDERS: Final = {"/var/lib/kubelet": "", "/var/run/cdi": "/cdi"}


@contextmanager
def _running_driver(text: str) -> Iterator[Host]:
    """Run the driver with the page's command, on the cluster that the page's other commands use."""
    found = _COMMAND.search(text)
    assert found is not None
    assert found[2] == NODE
    with control_plane_with_node([]) as kube, short_folder() as folder:
        arguments = ("allotment.cli.main", *shlex.split(found[1]))
        with running_host(kube, arguments, folder) as host:
            host.wait_for(lambda: "registered" in (folder / "driver.err").read_text())
            yield host


def updated_page(text: str) -> tuple[str, list[Tree]]:
    """The page with the current output of every command, and the CDI specs that existed while its pod ran."""
    specs: list[Tree] = []
    with _running_driver(text) as host:
        here = {path: f"{host.folder}{below}" for path, below in _FOLDERS.items()}
        verify = "$ allot driver verify "  # it looks for CDI specs where container runtimes do
        here[verify] = f"{verify}--cdi-root {host.folder}/cdi "

        def seen() -> None:
            specs.extend(host.specs())

        updated = screens.updated_page(
            _replaced(text, here), kubeconfig=host.kube.kubeconfig, before={"allot driver": seen}
        )
        updated = _replaced(updated, {found: path for path, found in here.items()})
    return updated, specs


def _replaced(text: str, paths: dict[str, str]) -> str:
    # The longer path first, because the other contains it.
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, paths[path])
    return text


def _updated_spec(text: str, specs: list[Tree]) -> str:
    """The page with the current CDI spec, if it differs by more than generated names."""
    (spec,) = specs
    shown = _SPEC.search(text)
    assert shown is not None
    found = json.dumps(spec, indent=2) + "\n"
    same = _GENERATED.sub("*", shown[2]) == _GENERATED.sub("*", found)
    return text if same else _SPEC.sub(lambda match: f"{match[1]}{found}{match[3]}", text)


def test_the_page_shows_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = PAGE.read_text(encoding="utf-8")
    if missing := screens.clients_of(text):
        pytest.skip(f"{' and '.join(sorted(missing))} not found: `make clients` installs them")
    updated, specs = updated_page(text)
    hint = "out of date; `python -m tests.kube.test_try_driver` updates it"
    assert updated == text, f"{PAGE.name} is {hint}"
    assert _updated_spec(updated, specs) == text, f"{PAGE.name} is {hint}"


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    before = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_updated_spec(*updated_page(before)), encoding="utf-8")
