"""Log lines as text and as JSON, with the name of their object and without secrets."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from allotment.components.logs import _QUIET, set_up
from allotment.controllers.resource_claims import _Key
from allotment.model.meta import ObjectKey

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbnlib2R5In0.c2lnbmF0dXJl"


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in (None, "asyncio", *_QUIET)}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def logged(form: Any, message: str, *arguments: object, verbose: bool = False, level: int = logging.INFO) -> str:
    stream = io.StringIO()
    set_up(form, verbose=verbose, stream=stream)
    logging.getLogger("allotment.scheduler.program").log(level, message, *arguments)
    return stream.getvalue()


def test_text_log_lines() -> None:
    line = logged("text", "pod %s: bound to %s", ObjectKey("shop", "web-0"), "n1")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO scheduler\.program: pod shop/web-0: bound to n1\n", line
    )


def test_json_log_lines_name_the_object() -> None:
    line = json.loads(logged("json", "%s: %s failed", "resource_claim", _Key("pod", "shop", "web-0")))
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "scheduler.program",
        "message": "resource_claim: pod shop/web-0 failed",
        "kind": "pod",
        "namespace": "shop",
        "name": "web-0",
    }


def test_an_exception_is_one_json_line() -> None:
    stream = io.StringIO()
    set_up("json", stream=stream)
    try:
        raise RuntimeError(f"no entry for Bearer {TOKEN}")
    except RuntimeError:
        logging.getLogger("allotment").exception("pod %s", ObjectKey("shop", "web-0"))
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["level"] == "error"
    assert "RuntimeError: no entry for Bearer ***" in entry["error"]
    assert TOKEN not in line


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "secret",
    [f"Bearer {TOKEN}", "bearer abc123", TOKEN, "-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----"],
)
def test_secrets_are_not_written(form: str, secret: str) -> None:
    line = logged(form, "the server said: %s and closed", secret)
    assert "***" in line
    assert "and closed" in line
    for part in secret.removeprefix("Bearer ").removeprefix("bearer ").split("\n"):
        assert part not in line


def test_verbosity_adds_messages() -> None:
    assert logged("text", "looking", level=logging.DEBUG) == ""
    assert "looking" in logged("text", "looking", level=logging.DEBUG, verbose=True)


def test_a_message_with_too_many_arguments_is_logged() -> None:
    assert "two %s (1, 2)" in logged("text", "two %s", 1, 2)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_name_with_invalid_unicode_is_logged(form: str) -> None:
    assert "caf\\udce9" in logged(form, "%s is gone", "caf\udce9").replace("\\\\", "\\")


def test_a_message_with_unmatched_placeholders_is_logged() -> None:
    assert json.loads(logged("json", "%(pod)s waits", {"name": "web"}))["message"].startswith("%(pod)s waits")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_proxys_password_is_not_written(form: str) -> None:
    line = logged(form, "the proxy %s does not answer", "http://me:secret@proxy:3128")
    assert "secret" not in line
    assert "http://***@proxy:3128" in line


_ASTRAY = """
import threading, warnings
from allotment.components import logs
logs.set_up("json")
logs.capture_uncaught()
warnings.warn("old\\nways")
def fail():
    raise RuntimeError("in a thread")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
class Bad:
    def __del__(self):
        raise RuntimeError("on the way out")
Bad()
raise RuntimeError("at the end")
"""


def test_uncaught_exceptions_are_json_lines() -> None:
    ended = subprocess.run([sys.executable, "-W", "always", "-c", _ASTRAY], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "error", "error", "critical"]
    texts = [line["message"] + line.get("error", "") for line in lines]
    for text, wanted in zip(texts, ("old", "in a thread", "on the way out", "at the end"), strict=True):
        assert wanted in text
    assert ended.returncode == 1
