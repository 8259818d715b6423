"""A temporary host with a fake NVML for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nvml import library, machine
from tests.nvml.machine import Machine


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library.compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def host(tmp_path: Path, fake_nvml: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    built = machine.build(tmp_path, fake_nvml)
    # A fake mount, because the real one needs privileges and would change this machine.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mount").write_text(f'#!/bin/sh\necho "mount $*" >> {built.root / "calls"}\n')
    (tmp_path / "bin/mount").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return built
