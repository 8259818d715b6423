"""What is to be done with the workloads of a file, forwards and back: kinds differ in how they take a new template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.tools.migrate.report import Migrated, Migration

#: Their pod templates cannot change: they are deleted and made again.
_MADE_AGAIN: Final = ("Job", "Pod")
_ROLLED: Final = ("Deployment", "StatefulSet", "DaemonSet")
#: They change, and their pods do not: those are deleted.
_LEAVE_PODS: Final = ("ReplicaSet", "ReplicationController")


def replaced(migration: Migration, file: str, workloads: Iterable[Migrated]) -> Iterator[str]:
    """The commands that bring a file into effect in which these workloads are others than before."""
    listed = tuple(workloads)
    for one in listed:
        if is_made_again(one) and not one.generated:
            yield f"kubectl -n {one.namespace} delete {one.kind.lower()}/{one.name} --ignore-not-found"
    # Of a generated name nothing can be applied; what is made is one more each time.
    verb = "create" if any(one.generated for one in listed) else "apply"
    yield f"kubectl{namespaced(migration)} {verb} -f {file}"
    for one in listed:
        if one.kind in _ROLLED and not one.custom:
            yield f"kubectl -n {one.namespace} rollout status {one.kind.lower()}/{one.name} --timeout=10m"
        if one.kind in _LEAVE_PODS:
            yield f"# then delete the pods of {one.kind.lower()}/{one.name} one by one"


def is_made_again(one: Migrated) -> bool:
    """Whether it must be deleted to change. A Job of Volcano is none of Kubernetes."""
    return one.kind in _MADE_AGAIN and not one.custom


def namespaced(migration: Migration) -> str:
    """The flag with which files are applied whose objects name no namespace; empty for namespace ``default``."""
    return "" if migration.namespace == "default" else f" -n {migration.namespace}"


def obsolete(migration: Migration) -> Iterator[str]:
    """The commands that remove what the migration made, when no pod uses it."""
    for one in migration.made:
        yield f"kubectl -n {one.namespace} delete {one.kind.lower()} {one.name}"
    for one in migration.classes:
        yield f"kubectl delete deviceclass {one.name}"


def changed(migration: Migration) -> dict[str, tuple[Migrated, ...]]:
    """The workloads whose manifests change, by file: what is deleted to change comes last."""
    found: dict[str, tuple[Migrated, ...]] = {}
    for one in migration.workloads:
        if one.decision.changes and one.name:
            found[one.file] = (*found.get(one.file, ()), one)
    return dict(sorted(found.items(), key=lambda item: any(map(is_made_again, item[1]))))


def wrapped(commands: Iterable[str]) -> list[str]:
    """A block of commands for a page."""
    return ["```sh", *commands, "```", ""]
