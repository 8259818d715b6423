"""The requests, programs and configurations of the page for programs work as the page shows."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment import Cluster
from allotment.cli.main import command_line
from allotment.queries.problems import problem_of
from allotment.queries.table import QUERIES
from allotment.watched.cluster import view_of
from tests.docs.screens import DOCS
from tests.program_server import ProgramServer

TEXT = (DOCS / "how-to" / "programs.md").read_text(encoding="utf-8")
#: A request, and the answer that follows.
REQUESTS = re.findall(r"```sh\n(curl .*?)```\n\n```json\n(.*?)```", TEXT, re.DOTALL)
CONFIGURATIONS = re.findall(r"```json\n(\{\n  \"(?:mcpServers|servers)\".*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[ProgramServer]:
    with ProgramServer(view_of(Cluster.fleet("dgx-a100-40gb:2"))) as found:
        yield found


@pytest.mark.parametrize(("command", "shown"), REQUESTS)
def test_a_request_has_the_answer_that_the_page_shows(command: str, shown: str, server: ProgramServer) -> None:
    words = shlex.split(command)
    pipe = words.index("|") if "|" in words else len(words)
    path = next(word for word in words if word.startswith("http")).removeprefix("http://127.0.0.1:8780")
    body = words[words.index("-d") + 1].encode() if "-d" in words else None
    found: Any = server.send("POST" if body else "GET", path, body).data
    for name in words[pipe + 2 :]:
        found = found[name.removeprefix(".")]
    assert found == json.loads(shown)


def test_the_page_shows_requests() -> None:
    assert len(REQUESTS) == 3
    assert len(CONFIGURATIONS) == 3


def test_the_program_prints_what_would_fit(server: ProgramServer, tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    program = tmp_path / "would_fit.py"
    program.write_text(source)
    done = subprocess.run(
        [sys.executable, str(program), f"{server.url}/?token=x"], capture_output=True, text=True, check=True
    )
    first, code, advice = done.stdout.splitlines()
    assert first == "2 of 3 pods fit"
    assert code.startswith("devices-in-use: ")
    assert advice == "Wait until other pods have released such devices, or add nodes with them."


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_a_configuration_starts_a_command_that_exists(text: str) -> None:
    (servers,) = json.loads(text).values()
    (entry,) = servers.values()
    if "command" in entry:
        assert entry["command"] == "allot"
        assert command_line("mcp").parse_args(entry["args"]).context == "production"
    else:
        assert entry["url"].endswith("/mcp")


def test_the_page_names_every_query() -> None:
    for query in QUERIES:
        assert f"`{query.name}`" in TEXT


def test_the_page_lists_the_kinds_of_problems() -> None:
    for kind in ("bad-input", "unknown-query", "method", "too-large", "media-type", "invalid-manifests"):
        assert f"`{kind}`" in TEXT
    assert problem_of(ValueError("x")) is None
