"""What drivers publish."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks.slices import incomplete_pools, invalid_pools, old_generations

SLICES: Final[tuple[Check, ...]] = (incomplete_pools.CHECK, old_generations.CHECK, invalid_pools.CHECK)
