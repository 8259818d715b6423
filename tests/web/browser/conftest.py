"""One Chromium for all tests of a module: starting it takes a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.browser.chromium import Browser, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, or a skipped test if it is missing."""
    with chromium() as found:
        yield found
