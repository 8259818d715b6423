"""What the tests of the chart share."""

from __future__ import annotations

import pytest

from tests.packaging import helm as program


@pytest.fixture(scope="session")
def helm() -> str:
    """Where helm is."""
    return program.wanted("helm")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Where kubectl is."""
    return program.wanted("kubectl")
