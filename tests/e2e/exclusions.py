"""The end-to-end tests that a lab cannot pass: in any case, or where it does not run real containers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from tests.e2e.suite import E2ETest

FILE: Final = Path(__file__).with_name("exclusions.toml")


class Exclusion(NamedTuple):
    """Tests by a pattern of their names, and what they need that the lab does not have."""

    pattern: re.Pattern[str]
    reason: str


class Exclusions(NamedTuple):
    """``focus``, ``subset``: the regular expressions of the tests that are run by default, and of a fast part."""

    focus: str
    subset: str
    entries: tuple[Exclusion, ...]

    @classmethod
    def read(cls, *, containers: bool) -> Exclusions:
        """Read the file. ``containers``: whether the lab runs real ones."""
        content = tomllib.loads(FILE.read_text())
        tables = (content["excluded"],) if containers else (content["excluded"], content["excluded-without-containers"])
        entries = [
            Exclusion(re.compile(pattern), reason)
            for table in tables
            for reason, patterns in table.items()
            for pattern in patterns
        ]
        return cls("|".join(content["focus"]), "|".join(content["subset"]), tuple(entries))

    def reason(self, test: E2ETest) -> str:
        """Return the reason for which a test is excluded; empty if it is not."""
        return next((entry.reason for entry in self.entries if entry.pattern.search(test.name)), "")
