"""Fixtures of the packaging tests."""

from __future__ import annotations

import pytest

from tests.packaging import helm as program


@pytest.fixture(scope="session")
def helm() -> str:
    """The path of helm."""
    return program.required_program("helm")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The path of kubectl."""
    return program.required_program("kubectl")
