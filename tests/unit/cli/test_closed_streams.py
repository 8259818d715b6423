"""The parent process may have closed the standard streams, as service managers do."""

from __future__ import annotations

import sys

import pytest

from allotment.cli.main import main


@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdin", "stdout", "stderr")])
@pytest.mark.parametrize(("words", "code"), [(["version"], 0), (["free", "--cluster", "/not/there"], 2)])
def test_closed_streams_do_not_change_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, closed: tuple[str, ...], words: list[str], code: int
) -> None:
    for stream in closed:
        monkeypatch.setattr(sys, stream, None)
    assert main(words) == code
    for stream in closed:
        if (opened := getattr(sys, stream)) is not None:
            opened.close()
