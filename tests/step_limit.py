"""A lower step limit for tests in which the search for devices ends without a result."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from allotment.engine import Allocator

#: The product's limit takes seconds to reach; no scenario of `tests/corpus` with a result needs as many steps as this.
SHORT_LIMIT = 5_000


def short_searches() -> AbstractContextManager[Any]:
    """Searches end after 5,000 steps instead of 200,000, except where a step limit is given."""
    assert Allocator.__init__.__defaults__ is not None
    return patch.object(Allocator.__init__, "__defaults__", (*Allocator.__init__.__defaults__[:-1], SHORT_LIMIT))
