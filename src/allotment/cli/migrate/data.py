"""``allot migrate`` for programs: the same answer as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from allotment.tools.migrate.report import Migrated, Migration
from allotment.tools.migrate.section import Section


def data(
    migration: Migration, sections: Sequence[Section], written: Sequence[str], left_out: Sequence[str]
) -> dict[str, Any]:
    """Decisions, new texts by file, sections, what was written, and files that must be rendered first."""
    return {
        "decided": migration.decided,
        "fine": migration.decided and all(section.fine for section in sections),
        "kube": migration.target.kube,
        "workloads": [_workload(one) for one in migration.workloads],
        "made": [
            {"kind": one.kind, "namespace": one.namespace, "name": one.name, "file": one.file, "users": one.users}
            for one in (*migration.made, *migration.classes)
        ],
        "files": migration.new_texts,
        "unwritten": dict(migration.unwritten),
        "sections": {section.title: msgspec.to_builtins(section) for section in sections},
        "written": list(written),
        "leftOut": list(left_out),
    }


def _workload(one: Migrated) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    for container in plain["containers"]:
        del container["path"]
    return plain
