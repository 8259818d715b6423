"""The figures that docs/sharing.md gives of the model."""

import re
from pathlib import Path

import pytest

from allotment.drivers.nvidia.simulated.multiprocessors import SECOND, SLICES, Multiprocessors

PAGE = (Path(__file__).parents[4] / "docs" / "sharing.md").read_text("utf-8")

#: What a picture of the demo costs, in seconds of one multiprocessor.
PICTURE = 32


def per_minute(count: int, breadth: int, *, programs: int = 1, threads: int | None = None, interval: int = 0) -> float:
    """Pictures a minute of programs that always have something to draw; with ``threads``, clients of one MPS daemon."""
    model = Multiprocessors(count, slice_ns=SLICES[interval])
    for number in range(programs):
        name = str(number)
        model.enter(name, "mps" if threads else name, threads)
        model.launch(name, 1000 * SECOND * breadth, breadth)
    model.advance(6 * SECOND)
    return model.used / SECOND / PICTURE * 10


@pytest.mark.parametrize("breadth", [16, 32, 54, 108])
def test_what_the_three_ways_give(breadth: int) -> None:
    said = re.search(rf"^\| (?:all )?{breadth}(?: multiprocessors)? \| (.+) \|$", PAGE, re.MULTILINE)
    assert said is not None
    assert [int(cell) for cell in said[1].split(" | ")] == [
        pytest.approx(value, abs=0.6)
        for value in (
            per_minute(108, breadth),
            per_minute(108, breadth, programs=3, interval=3),
            per_minute(108, breadth, programs=3, threads=33),
            7 * per_minute(14, breadth),
        )
    ]


def test_what_switching_costs() -> None:
    said = re.search(r"draw (\d+) pictures a minute with `Short`, (\d+) .*, (\d+) .* and (\d+) with `Long`", PAGE)
    assert said is not None
    rates = [per_minute(108, 32, programs=3, interval=interval) for interval in (1, 0, 2, 3)]
    assert [int(rate) for rate in said.groups()] == [pytest.approx(rate, abs=0.6) for rate in rates]
