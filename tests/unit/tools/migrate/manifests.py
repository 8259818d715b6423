"""Short workloads for these tests."""

from __future__ import annotations

from typing import Any

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.loading import Document, load_text
from allotment.model.serialization import to_yaml
from allotment.tools.migrate.report import MigratedWorkload, Migration
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.target import MigrationStrategy, Target


def workload(kind: str = "Deployment", name: str = "web", *, spec: dict[str, Any] | None = None, **pod: Any) -> str:
    """A workload whose pods have these fields; ``limits`` adds a single container with them."""
    limits = pod.pop("limits", None)
    if limits is not None:
        pod["containers"] = [{"name": "main", "image": "i", "resources": {"limits": limits}}]
    if kind == "Pod":
        return to_yaml([{"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": pod}])
    labels = {"app": name}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    template = {"metadata": {"labels": labels}, "spec": pod}
    tree = {**selector, **(spec or {}), "template": template}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return to_yaml([{"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": tree}])


def documents(*texts: str) -> list[Document]:
    """The documents of one file."""
    loaded = load_text("---\n".join(texts), "app.yaml")
    assert not loaded.problems
    return loaded.documents


def target(
    kube: str = "1.36",
    *,
    fleet: str = "",
    strategy: MigrationStrategy = "auto",
    shares: int = 0,
    same: str = "",
    **gates: bool,
) -> Target:
    """A migration target: a Kubernetes release, optionally with the cluster of a fleet."""
    cluster = cluster_of(parse_fleet([fleet]), kube) if fleet else None
    return Target(
        kube=kube,
        features=Features(kube=kube, gates=gates),
        strategy=strategy,
        known=cluster is not None,
        nodes=cluster.nodes if cluster else (),
        slices=cluster.slices if cluster else (),
        classes=cluster.classes if cluster else (),
        shares=shares,
        same=same,
    )


def migrated(*texts: str, to: Target | None = None) -> Migration:
    """The migration of a single file."""
    return migrate(documents(*texts), to or target())


def only(*texts: str, to: Target | None = None) -> MigratedWorkload:
    """The migrated workload of a file with a single one."""
    (workload_,) = migrated(*texts, to=to).workloads
    return workload_
