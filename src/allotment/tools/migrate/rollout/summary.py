"""The roll-back section of the text output."""

from __future__ import annotations

from allotment.tools.migrate.report import Migration, Section
from allotment.tools.migrate.rollout.steps import apply_commands, changed_workloads, cleanup_commands
from allotment.tools.migrate.simulation.comparison import Comparison

TITLE = "Roll-back"


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
    return Section(title=TITLE, lines=(text,), data={"steps": steps})
