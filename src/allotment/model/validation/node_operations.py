"""Node operations that a driver does not need for its devices (1.37, gate DRAOptionalNodeOperations).

That operations are known and unique are declared rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.model.validation.errors import Errors, invalid

ALL: Final = "*"
PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"


def skipped(operations: Sequence[str], path: str) -> Errors:
    """Validate that preparation is not skipped alone."""
    if PREPARE in operations and not {UNPREPARE, ALL} & set(operations):
        yield invalid(path, tuple(operations), f"{PREPARE} cannot be skipped unless {UNPREPARE} is also skipped")
