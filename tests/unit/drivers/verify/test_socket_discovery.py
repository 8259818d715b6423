"""From a socket that somebody names to the driver, or to what is there instead."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from allotment.drivers.verify.socket_discovery import DriverNotFound, find_driver


def told(path: Path) -> str:
    with pytest.raises(DriverNotFound) as error:
        asyncio.run(find_driver(path))
    return str(error.value)


def test_the_error_for_a_missing_socket_lists_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A driver that is a pod has the pod's UID in its socket's name, which nobody guesses.
    monkeypatch.chdir(tmp_path)  # addresses of sockets are short
    Path("readme").write_text("")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("gpu.example.com-7-reg.sock")
        said = told(Path("gpu.example.com-reg.sock"))
    assert said.endswith("expected the driver's *-reg.sock or dra.sock; found gpu.example.com-7-reg.sock")


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_the_error_for_a_missing_socket_without_others(tmp_path: Path, folder: str) -> None:
    said = told(tmp_path / folder / "gpu.example.com-reg.sock")
    assert said.endswith("does not exist: expected the driver's *-reg.sock or dra.sock")
