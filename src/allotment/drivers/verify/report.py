"""The report of the verifier: the driver, and the result of each check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from allotment.drivers.verify.check import CheckResult, Result

RESULTS: Final[tuple[Result, ...]] = ("pass", "FAIL", "warn", "skipped")


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The expectations of kubelets that a driver meets, and those that it does not.

    ``node``: the node of the driver. ``endpoint``, ``registration``: its sockets; ``registration`` is empty if the
    driver has none. ``results``: one for each check, in order.
    """

    driver: str
    node: str
    endpoint: str
    registration: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed. Skipped checks and warnings are no failures."""
        return not self.summary["FAIL"]

    @property
    def summary(self) -> Mapping[Result, int]:
        """The number of checks with each result."""
        return {kind: sum(each.result == kind for each in self.results) for kind in RESULTS}

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        return {
            "driver": self.driver,
            "node": self.node,
            "registration": self.registration,
            "endpoint": self.endpoint,
            "summary": dict(self.summary),
            "checks": [_data(result) for result in self.results],
        }


def _data(result: CheckResult) -> dict[str, Any]:
    check = result.check
    data = {
        "name": check.name, "result": result.result, "expected": check.expected, "source": check.source,
        "seen": result.seen, "wanted": result.expected, "remedy": result.remedy, "seconds": round(result.seconds, 3),
    }  # fmt: skip
    return {key: value for key, value in data.items() if value != ""}
