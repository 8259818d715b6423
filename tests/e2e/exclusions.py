"""The end-to-end tests that a lab cannot pass, because it runs no real containers, networks or volumes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from tests.e2e.suite import E2ETest

FILE: Final = Path(__file__).with_name("exclusions.toml")


class Exclusion(NamedTuple):
    """Tests by a pattern of their names, and what they need that a lab does not have."""

    pattern: re.Pattern[str]
    reason: str


class Exclusions(NamedTuple):
    """``focus``: the regular expression of the tests that are run by default."""

    focus: str
    entries: tuple[Exclusion, ...]

    @classmethod
    def read(cls) -> Exclusions:
        """Read the file."""
        content = tomllib.loads(FILE.read_text())
        entries = [
            Exclusion(re.compile(pattern), reason)
            for reason, patterns in content["excluded"].items()
            for pattern in patterns
        ]
        return cls(content["focus"], tuple(entries))

    def reason(self, test: E2ETest) -> str:
        """Return the reason for which a test is excluded; empty if it is not."""
        return next((entry.reason for entry in self.entries if entry.pattern.search(test.name)), "")
