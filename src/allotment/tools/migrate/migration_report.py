"""The report of a migration: the decisions, the changed manifests, and what to do before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from allotment.tools.migrate.report import MigratedWorkload, Migration, Section


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The report of a migration.

    ``sections``: comparison of the fit, pre-flight checks, and roll-back. ``templates`` and ``patches``: files that
    were skipped because they must be rendered first. ``written``: the files that were written.
    """

    migration: Migration
    sections: Sequence[Section]
    templates: Sequence[str] = ()
    patches: Sequence[str] = ()
    written: Sequence[str] = ()

    @property
    def fine(self) -> bool:
        """Whether every workload can be migrated, and the checks of the result found no problem."""
        return self.migration.decided and all(section.fine for section in self.sections)

    @property
    def workloads(self) -> Sequence[MigratedWorkload]:
        """The workloads that request devices of a device plugin, each with its decision."""
        return self.migration.workloads

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts of changed and new files, by name."""
        return self.migration.new_texts

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        migration = self.migration
        data = {
            "decided": migration.decided,
            "fine": self.fine,
            "kube": migration.target.kube,
            "workloads": [_workload(item) for item in migration.workloads],
            "made": [
                {
                    "kind": item.kind,
                    "namespace": item.namespace,
                    "name": item.name,
                    "file": item.file,
                    "users": item.users,
                }
                for item in (*migration.new_objects, *migration.classes)
            ],
            "files": migration.new_texts,
            "unwritten": migration.unwritten,
            "sections": {section.title: section for section in self.sections},
            "written": self.written,
            "leftOut": [*self.templates, *self.patches],
        }
        # Via JSON, because msgspec then converts tuples to lists.
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data))
        return plain


def _workload(workload: MigratedWorkload) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(workload)
    for container in plain["containers"]:
        del container["path"]
    return plain
