"""The command as a user runs it, in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from allotment.cli.main import main


class Ran(NamedTuple):
    """Exit code and what was written."""

    code: int
    out: str
    err: str


Allot = Callable[..., Ran]


@pytest.fixture
def allot(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Allot:
    """Run ``allot`` with words and, if asked, standard input; no cluster of the machine is in reach."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))

    def run(*words: str, stdin: str | bytes = "") -> Ran:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run
