"""The suite as functions, for another test module with another backend."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import pytest

_MODULES: Final = ("test_reading", "test_writing", "test_watching", "test_parts", "test_websockets")

for _name in _MODULES:
    pytest.register_assert_rewrite(f"tests.cluster.{_name}")


def tests() -> dict[str, Callable[..., Any]]:
    """Every test by its name; they use a fixture ``backend``."""
    found: dict[str, Callable[..., Any]] = {}
    for name in _MODULES:
        module = importlib.import_module(f"tests.cluster.{name}")
        functions = {key: value for key, value in vars(module).items() if key.startswith("test_")}
        assert not found.keys() & functions.keys(), "two tests with one name: only one would run"
        found |= functions
    return found
