"""The figures in docs/explanation/sharing.md equal those of the model."""

import re
from pathlib import Path

import pytest

from allotment.drivers.nvidia.simulated.multiprocessors import SECOND, SLICES, Multiprocessors

PAGE = (Path(__file__).parents[4] / "docs" / "explanation" / "sharing.md").read_text("utf-8")

#: The work of a picture in the demo, in seconds of one multiprocessor.
WORK_PER_PICTURE = 32


def pictures_per_minute(
    count: int, breadth: int, *, programs: int = 1, threads: int | None = None, interval: int = 0
) -> float:
    """Pictures per minute of continuously drawing programs; with ``threads``, clients of one MPS daemon."""
    model = Multiprocessors(count, slice_ns=SLICES[interval])
    for number in range(programs):
        name = str(number)
        model.enter(name, "mps" if threads else name, threads)
        model.launch(name, 1000 * SECOND * breadth, breadth)
    model.advance(6 * SECOND)
    return model.used / SECOND / WORK_PER_PICTURE * 10


@pytest.mark.parametrize("breadth", [16, 32, 54, 108])
def test_throughput_of_the_three_sharing_modes(breadth: int) -> None:
    match = re.search(rf"^\| (?:all )?{breadth}(?: multiprocessors)? \| (.+) \|$", PAGE, re.MULTILINE)
    assert match is not None
    assert [int(cell) for cell in match[1].split(" | ")] == [
        pytest.approx(value, abs=0.6)
        for value in (
            pictures_per_minute(108, breadth),
            pictures_per_minute(108, breadth, programs=3, interval=3),
            pictures_per_minute(108, breadth, programs=3, threads=33),
            7 * pictures_per_minute(14, breadth),
        )
    ]


def test_cost_of_context_switches() -> None:
    page = " ".join(PAGE.split())
    match = re.search(r"draw (\d+) pictures per minute with `Short`, (\d+) .*, (\d+) .* and (\d+) with `Long`", page)
    assert match is not None
    rates = [pictures_per_minute(108, 32, programs=3, interval=interval) for interval in (1, 0, 2, 3)]
    assert [int(rate) for rate in match.groups()] == [pytest.approx(rate, abs=0.6) for rate in rates]
