"""promtool, Prometheus' own checker; tests that need it are skipped if it is missing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.monitoring.programs import program

ROOT = Path(__file__).parents[2]
Promtool = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def promtool() -> Promtool:
    """Runs promtool with these arguments."""
    path = program("promtool")
    if path is None:
        pytest.skip("promtool not found (python -m tests.monitoring.programs): output and rules are not checked")

    def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([path, *words], input=text, capture_output=True, text=True, check=False)

    return run
