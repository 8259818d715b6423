"""Discovery of the driver by a socket, and the errors."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from allotment.drivers.verify.socket_discovery import DriverNotFound, find_driver


def error_of(path: Path) -> str:
    with pytest.raises(DriverNotFound) as error:
        asyncio.run(find_driver(path))
    return str(error.value)


def test_the_error_for_a_missing_socket_lists_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The socket of a driver in a pod has the pod's UID in its name, which is hard to guess.
    monkeypatch.chdir(tmp_path)  # socket addresses must be short
    Path("readme").write_text("")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("gpu.example.com-7-reg.sock")
        message = error_of(Path("gpu.example.com-reg.sock"))
    assert message.endswith("expected the driver's *-reg.sock or dra.sock; found gpu.example.com-7-reg.sock")


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_the_error_for_a_missing_socket_without_others(tmp_path: Path, folder: str) -> None:
    message = error_of(tmp_path / folder / "gpu.example.com-reg.sock")
    assert message.endswith("does not exist: expected the driver's *-reg.sock or dra.sock")
