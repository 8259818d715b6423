"""Commands that apply or roll back the workloads of a file; they depend on how a kind applies a new pod template."""

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
    """The commands that apply a file in which these workloads have changed."""
    listed = tuple(workloads)
    for workload in listed:
        if is_recreated(workload) and not workload.generated:
            yield f"kubectl -n {workload.namespace} delete {workload.kind.lower()}/{workload.name} --ignore-not-found"
    # An object with generateName cannot be applied, only created.
    verb = "create" if any(workload.generated for workload in listed) else "apply"
    yield f"kubectl{namespace_flag(migration)} {verb} -f {file}"
    for workload in listed:
        name = f"{workload.kind.lower()}/{workload.name}"
        if workload.kind in _ROLLING and not workload.custom:
            yield f"kubectl -n {workload.namespace} rollout status {name} --timeout=10m"
        if workload.kind in _KEEP_PODS:
            yield f"# then delete the pods of {name} one by one"


def is_recreated(workload: MigratedWorkload) -> bool:
    """Whether a change requires deleting it. Custom kinds, such as Volcano's Job, do not count."""
    return workload.kind in _RECREATED and not workload.custom


def namespace_flag(migration: Migration) -> str:
    """The kubectl flag for the namespace of objects without one; empty for ``default``."""
    return "" if migration.namespace == "default" else f" -n {migration.namespace}"


def cleanup_commands(migration: Migration) -> Iterator[str]:
    """The commands that delete the objects that the migration created."""
    for created in migration.new_objects:
        yield f"kubectl -n {created.namespace} delete {created.kind.lower()} {created.name}"
    for created in migration.classes:
        yield f"kubectl delete deviceclass {created.name}"


def changed_workloads(migration: Migration) -> dict[str, tuple[MigratedWorkload, ...]]:
    """The workloads whose manifests change, by file; files with recreated workloads come last."""
    found: dict[str, tuple[MigratedWorkload, ...]] = {}
    for workload in migration.workloads:
        if workload.decision.changes and workload.name:
            found[workload.file] = (*found.get(workload.file, ()), workload)
    return dict(sorted(found.items(), key=lambda item: any(map(is_recreated, item[1]))))


def code_block(commands: Iterable[str]) -> list[str]:
    """The commands as a Markdown code block."""
    return ["```sh", *commands, "```", ""]
