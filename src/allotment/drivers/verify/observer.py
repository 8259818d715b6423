"""The progress of a run of the verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.drivers.verify.check import CheckResult, DriverCheck
    from allotment.drivers.verify.driver_session import DriverSession


class RunObserver:
    """Receives each step of a run; this one ignores all of them."""

    def connected(self, session: DriverSession) -> None:
        """The driver was found."""

    def starting(self, check: DriverCheck) -> None:
        """A check starts."""

    def finished(self, result: CheckResult) -> None:
        """A check has a result."""

    def canceled(self) -> None:
        """The run was canceled; what it created is removed next."""
