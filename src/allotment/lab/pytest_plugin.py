"""A lab for tests: the fixture ``allotment_lab``, fresh for each test.

    @pytest.mark.allotment_lab(fleet="dgx-a100-40gb:2")
    def test_my_chart_gets_its_gpus(allotment_lab):
        allotment_lab.apply("chart.yaml")
        allotment_lab.wait(timeout=10)

The marker takes what :class:`allotment.Lab` takes. Nothing of the lab is imported before a test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from allotment.lab.lab import Lab

_MARKER = "allotment_lab"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{_MARKER}(fleet, **settings): how allotment.Lab is started for this test")


@pytest.fixture
def allotment_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A Kubernetes control plane with simulated GPU nodes, gone after the test."""
    from allotment.extras import require

    require("running a lab", "lab")
    from allotment.lab.lab import Lab

    marker = request.node.get_closest_marker(_MARKER)
    with Lab(*(marker.args if marker else ()), **(marker.kwargs if marker else {})) as lab:
        yield lab
