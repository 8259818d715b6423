"""What is told after the decisions: each section is a function of the migration and of the trial, in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.tools.migrate.preflight.telling import pre_flight
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.rollout.telling import roll_back
from allotment.tools.migrate.section import Section
from allotment.tools.migrate.simulation.comparison import Comparison
from allotment.tools.migrate.simulation.text import before_and_after

#: A section, or None where there is nothing to say. There is no comparison where nothing was given to try things on.
Writer = Callable[[Migration, Comparison | None], Section | None]

_WRITERS: Final[tuple[Writer, ...]] = (before_and_after, pre_flight, roll_back)


def sections_of(migration: Migration, trial: Comparison | None) -> tuple[Section, ...]:
    """The sections of a migration and its trial."""
    return tuple(section for write in _WRITERS if (section := write(migration, trial)) is not None)
