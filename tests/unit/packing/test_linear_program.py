"""The HiGHS solver: its results, and that it prints nothing."""

from __future__ import annotations

import numpy as np
import pytest

from allotment.packing.linear import Program


def test_the_solver_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Since 1.16 its constructor prints a banner to file descriptor 1, from C++."""
    program = Program([2.0], [np.inf])
    program.add_columns(np.array([3.0]), np.array([0]), np.array([0]), np.array([1.0]))
    point = program.solve_relaxation()
    whole = program.solve_integer(nodes=10, gap=0.0)
    assert point is not None
    assert point.value == 6
    assert whole.bound == 6
    assert capfd.readouterr() == ("", "")
