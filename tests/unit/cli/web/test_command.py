"""``allot web``: its options, its address, and its end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from allotment import extras
from allotment.cli import web
from allotment.cli.inputs.watched import watched_cluster_or_playground
from allotment.cli.main import _parsed, main
from allotment.errors import InputError

SNAPSHOT = Path(__file__).parents[3] / "corpus" / "mixed" / "admin-access-not-allowed-beside-full-nodes.yaml"


@pytest.fixture
def _nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a lab nor a kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``allot web`` in a process with a pipe; yields it and the first line of its output."""
    command = [sys.executable, "-m", "allotment.cli.main", "web", "--fleet", "t4", "--port", "0", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        with process:  # closes its pipes
            pass


def rest_of(process: subprocess.Popen[str]) -> str:
    """Wait until a process ends with exit code 0, and return the rest of its output."""
    assert process.stdout is not None
    output = process.stdout.read()
    assert process.wait(120) == 0
    return output


def fetched(address: str, page: str) -> tuple[int, bytes]:
    """Fetch a page as JSON, with the token of an address."""
    base, _, token = address.partition("/?token=")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    with urlopen(Request(base + page, headers=headers), timeout=60) as response:
        return response.status, response.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_address_is_printed_with_its_token_and_ctrl_c_ends_the_page(number: signal.Signals) -> None:
    with serving() as (process, first):
        found = re.fullmatch(r"t4: (http://127\.0\.0\.1:\d+/\?token=[\w-]{20,})\n", first)
        assert found is not None, first
        status, body = fetched(found[1], "/map")
        assert (status, json.loads(body)["totals"]) == (200, {"free": 1})
        process.send_signal(number)
        assert rest_of(process) == "Press Ctrl-C to end.\nThe page is closed.\n"


def test_prices_are_those_of_the_catalog() -> None:
    with serving("--catalog", "aws") as (process, first):
        status, body = fetched(first.rpartition(" ")[2].strip(), "/money")
        assert (status, json.loads(body)["currency"]) == (200, "USD")
        process.send_signal(signal.SIGINT)


def test_the_page_of_a_lab_prints_only_its_address_and_ends_with_its_parent() -> None:
    with serving("--with-parent") as (process, first):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+\n", first)
        assert process.stdin is not None
        process.stdin.close()
        assert rest_of(process) == ""


def test_ctrl_c_ends_the_page_of_a_lab_before_its_parent() -> None:
    with serving("--with-parent") as (process, _):
        process.send_signal(signal.SIGINT)  # a terminal sends it to both
        assert rest_of(process) == ""
        assert process.wait(60) == 0


def test_a_port_that_is_taken_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["web", "--fleet", "t4", "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"--port: {port} is already in use" in error
    assert "omit it to use a free port" in error


def test_without_a_port_another_one_is_used_if_the_default_is_taken() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # another program has it already
            other.bind(("127.0.0.1", web.PORT))
        other.listen()
        assert web.options_of(_parsed(["web"])).port == 0


def test_the_missing_extra_is_named_with_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "starlette")
    assert main(["web", "--fleet", "t4"]) == 2
    assert "allot web requires starlette: pip install 'allotment[web]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--certificate", "tls.crt"], "--certificate and --key: specify both"),
        (["--certificate", "/none/tls.crt", "--key", "/none/tls.key"], "/none/tls.crt: No such file"),
        (["--port", "99999"], "--port: expected 0 to 65535, found 99999"),
        (["--address", "0.0.0.0"], "--address 0.0.0.0: requires --certificate and --key"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], text: str) -> None:
    with pytest.raises(InputError, match=re.escape(text)):
        web.options_of(_parsed(["web", *words]))


def test_all_options() -> None:
    found = web.options_of(
        _parsed(["web", "--address", "::1", "--port", "9", "--allowed-host", "gpu.lan", "--allow-origin", "http://a:1"])
    )
    assert (found.host, found.port, found.in_cluster) == ("::1", 9, False)
    assert (found.allowed_hosts, found.allowed_origins) == (("gpu.lan",), ("http://a:1",))


def place_of(*words: str) -> str:
    return watched_cluster_or_playground(_parsed(["web", *words])).view().place


@pytest.mark.usefixtures("_nothing")
def test_a_snapshot_hardware_or_nothing() -> None:
    assert place_of("--cluster", str(SNAPSHOT)) == "snapshot"
    assert place_of("--fleet", "t4:2") == "fleet"
    assert place_of("--playground") == "none"
    assert place_of() == "none"


@pytest.mark.usefixtures("_nothing")
def test_a_named_cluster_that_is_missing_is_not_replaced_by_a_playground(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        place_of("--kubeconfig", str(tmp_path / "none"))
    with pytest.raises(InputError, match="--playground: not allowed"):
        place_of("--playground", "--context", "prod")
    with pytest.raises(InputError):
        place_of("--fleet", "no-such-machine")
