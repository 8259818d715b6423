"""A lab that is stopped, suspended, or whose clock is set loses no node and no pod."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests import preload
from tests.storm.pauses import CLOCKS, PAUSES, PausedLab


def test_pauses_and_clock_changes_lose_nothing(tmp_path: Path) -> None:
    library = preload.compiled(CLOCKS, tmp_path)
    if library is None:
        pytest.skip("NOT TESTED: pauses, because there is no Linux with a C compiler to shift the clocks")
    some = ("stopped for 60 s", "suspended for 10 min", "wall clock 6 h back")  # make storm: all, and observed longer
    asyncio.run(PausedLab(tmp_path, library).run({name: PAUSES[name] for name in some}, observed=100))
