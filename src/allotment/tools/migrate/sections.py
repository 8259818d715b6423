"""The output sections after the decisions: simulation, pre-flight checks and roll-back.

Each is a function of the migration and its simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.checks import checks_of
from allotment.tools.migrate.report import Migration, Section
from allotment.tools.migrate.rollout.steps import apply_commands, changed_workloads, cleanup_commands
from allotment.tools.migrate.simulation.comparison import Comparison
from allotment.tools.migrate.simulation.text import before_and_after

TITLE = "Pre-flight"


def pre_flight(migration: Migration, trial: Comparison | None) -> Section | None:
    """The section; None if no workload requests devices."""
    checks = checks_of(migration, trial)
    if not checks:
        return None
    lines = [line for check in checks if check.state == "to do" for line in _check_lines(check)]
    lines += [line for check in checks if check.state == UNKNOWN and not check.routine for line in _check_lines(check)]
    routine = ", ".join(check.title for check in checks if check.state == UNKNOWN and check.routine)
    if routine:
        lines.append(f"to check: {routine}. -d DIR writes the commands and reasons to DIR/README.md.")
    fine = ", ".join(check.title for check in checks if check.state == "ok")
    if fine:
        lines.append(f"ok: {fine}.")
    return Section(
        title=TITLE,
        lines=tuple(lines),
        fine=not any(check.danger for check in checks),
        data={"checks": msgspec.to_builtins(checks)},
    )


def _check_lines(check: Check) -> Iterator[str]:
    state = "to check" if check.state == UNKNOWN else check.state
    yield f"{state}: {check.title}. {check.text}"
    if check.state == "to do" and check.commands:
        yield from (f"  {line}" for line in check.commands)
    elif check.look:
        yield f"  {check.look}"


#: Returns a section, or None if it is empty. The comparison is None if no fleet or cluster was given.
def roll_back(migration: Migration, trial: Comparison | None) -> Section | None:
    """The section; None if nothing changes."""
    workloads = changed_workloads(migration)
    if not workloads:
        return None
    made = len(migration.new_objects) + len(migration.classes)
    objects = f"the {made} new objects" if made > 1 else "the new object"
    text = (
        f"Return the nodes to the device plugin, apply the original files, and delete {objects} after the new pods are "
        "gone. -d DIR keeps the original files in DIR/rollback and writes the steps of the migration and the "
        "rollback to DIR/README.md."
    )
    steps: list[object] = [
        {"workloads": [workload.subject for workload in each], "commands": list(apply_commands(migration, file, each))}
        for file, each in reversed(workloads.items())
    ]
    steps.append({"workloads": [], "commands": list(cleanup_commands(migration))})
    return Section(title="Roll-back", lines=(text,), data={"steps": steps})


Writer = Callable[[Migration, Comparison | None], Section | None]

_WRITERS: Final[tuple[Writer, ...]] = (before_and_after, pre_flight, roll_back)


def sections_of(migration: Migration, trial: Comparison | None) -> tuple[Section, ...]:
    """The sections of a migration and its simulation."""
    return tuple(section for write in _WRITERS if (section := write(migration, trial)) is not None)
