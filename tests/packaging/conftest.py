"""Fixtures of the packaging tests.

The tests of a release build it several times and install it in each way, which takes minutes: `make test-release` runs
them.
"""

from __future__ import annotations

import os

import pytest

from tests.packaging import helm as program

#: Set by `make test-release`.
_OF_RELEASES = "ALLOTMENT_TEST_RELEASE"
collect_ignore = [] if os.environ.get(_OF_RELEASES) else ["test_release.py", "test_installing.py"]


@pytest.fixture(scope="session")
def helm() -> str:
    """The path of helm."""
    return program.required_program("helm")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The path of kubectl."""
    return program.required_program("kubectl")
