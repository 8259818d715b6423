"""The table of results by special interest group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.e2e.suite import E2ETest, Outcome


def table(release: str, outcomes: Sequence[Outcome], excluded: Iterable[E2ETest]) -> str:
    """Return a Markdown table.

    >>> passed, failed = E2ETest("[sig-apps] a"), E2ETest("[sig-apps] b")
    >>> print(table("1.37", [Outcome(passed, "", 1.0), Outcome(failed, "timed out", 1.0)], [E2ETest("[sig-node] c")]))
    | 1.37 | passed | failed | excluded |
    | --- | --- | --- | --- |
    | sig-apps | 1 | 1 | 0 |
    | sig-node | 0 | 0 | 1 |
    | all | 1 | 1 | 1 |
    """
    passed = Counter(each.test.group for each in outcomes if not each.failure)
    failed = Counter(each.test.group for each in outcomes if each.failure)
    left_out = Counter(test.group for test in excluded)
    groups = sorted(passed.keys() | failed.keys() | left_out.keys())
    rows = [(group, passed[group], failed[group], left_out[group]) for group in groups]
    rows.append(("all", passed.total(), failed.total(), left_out.total()))
    lines = [f"| {release} | passed | failed | excluded |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])
