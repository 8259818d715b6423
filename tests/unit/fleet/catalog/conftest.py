"""The packaged catalog by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from allotment.fleet.catalog import InstanceType, catalog

Type = Callable[[str], InstanceType]


@pytest.fixture(scope="session")
def sold() -> Type:
    """A type of the packaged catalog."""
    types = {instance.key: instance for instance in catalog()}
    return types.__getitem__
