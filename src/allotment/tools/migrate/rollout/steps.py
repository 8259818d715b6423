"""Commands to apply and to roll back the workloads of a file, by how each kind applies a new pod template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.tools.migrate.report import MigratedWorkload, Migration

#: Their pod templates are immutable: they are deleted and created again.
_RECREATED: Final = ("Job", "Pod")
_ROLLING: Final = ("Deployment", "StatefulSet", "DaemonSet")
#: They do not replace running pods, which must be deleted.
_KEEP_PODS: Final = ("ReplicaSet", "ReplicationController")


def apply_commands(migration: Migration, file: str, workloads: Iterable[MigratedWorkload]) -> Iterator[str]:
    """The commands that apply a file in which these workloads differ."""
    listed = tuple(workloads)
    for one in listed:
        if is_recreated(one) and not one.generated:
            yield f"kubectl -n {one.namespace} delete {one.kind.lower()}/{one.name} --ignore-not-found"
    # An object with generateName cannot be applied, only created.
    verb = "create" if any(one.generated for one in listed) else "apply"
    yield f"kubectl{namespace_flag(migration)} {verb} -f {file}"
    for one in listed:
        if one.kind in _ROLLING and not one.custom:
            yield f"kubectl -n {one.namespace} rollout status {one.kind.lower()}/{one.name} --timeout=10m"
        if one.kind in _KEEP_PODS:
            yield f"# then delete the pods of {one.kind.lower()}/{one.name} one by one"


def is_recreated(one: MigratedWorkload) -> bool:
    """Whether a change requires deleting it. Custom kinds, such as Volcano's Job, do not count."""
    return one.kind in _RECREATED and not one.custom


def namespace_flag(migration: Migration) -> str:
    """The kubectl flag for the namespace of objects without one; empty for ``default``."""
    return "" if migration.namespace == "default" else f" -n {migration.namespace}"


def cleanup_commands(migration: Migration) -> Iterator[str]:
    """The commands that delete the objects that the migration created."""
    for one in migration.new_objects:
        yield f"kubectl -n {one.namespace} delete {one.kind.lower()} {one.name}"
    for one in migration.classes:
        yield f"kubectl delete deviceclass {one.name}"


def changed_workloads(migration: Migration) -> dict[str, tuple[MigratedWorkload, ...]]:
    """The workloads whose manifests change, by file; files with recreated workloads come last."""
    found: dict[str, tuple[MigratedWorkload, ...]] = {}
    for one in migration.workloads:
        if one.decision.changes and one.name:
            found[one.file] = (*found.get(one.file, ()), one)
    return dict(sorted(found.items(), key=lambda item: any(map(is_recreated, item[1]))))


def code_block(commands: Iterable[str]) -> list[str]:
    """The commands as a Markdown code block."""
    return ["```sh", *commands, "```", ""]
