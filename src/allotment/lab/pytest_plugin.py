"""pytest plugin with the fixture ``allotment_lab``, a new lab for each test.

    @pytest.mark.allotment_lab(fleet="dgx-a100-40gb:2")
    def test_my_chart_gets_its_gpus(allotment_lab):
        allotment_lab.apply("chart.yaml")
        allotment_lab.wait(timeout=10)

The marker takes the arguments of :class:`allotment.Lab`. The lab is imported only when a test requests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from allotment.lab.lab import Lab

_MARKER = "allotment_lab"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{_MARKER}(fleet, **settings): settings of the allotment.Lab for this test")


@pytest.fixture
def allotment_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A Kubernetes control plane with simulated GPU nodes, stopped after the test."""
    from allotment.extras import require

    require("running a lab", "lab")
    from allotment.lab.lab import Lab

    marker = request.node.get_closest_marker(_MARKER)
    with Lab(*(marker.args if marker else ()), **(marker.kwargs if marker else {})) as lab:
        yield lab
