"""The problems of a cluster's devices, drivers and claims, and of the pods that need them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from allotment.api.cluster import Cluster, cluster_given
from allotment.api.clusters.described import SnapshotSource
from allotment.api.clusters.source import ClusterSource
from allotment.api.objects.validation import defined_twice
from allotment.errors import InputError, InvalidManifests
from allotment.tools.doctor.examination import confirmed, needs_confirmation, run_checks
from allotment.tools.doctor.reading import ReadObjects, is_cluster_object, namespaced_name, read_objects
from allotment.tools.doctor.report import DoctorReport
from allotment.tools.doctor.selection import selected_checks
from allotment.tools.doctor.snapshot import ClusterSnapshot, snapshot_of

#: Time for controllers to react to a pod.
_SECOND_LOOK_SECONDS: Final = 2.0


def doctor(cluster: Cluster | None = None, *, select: Sequence[str] = ()) -> DoctorReport:
    """Return the problems of a cluster, the most severe first.

    ``cluster``: by default the running one. It is read twice if a problem may be transient, 2 seconds apart.
    ``select``: the checks to run, by code: ``D501``, or ``D5`` for all that start with it. Raises InputError for an
    unknown check, InvalidManifests for an invalid snapshot, StatusError and Unreachable for a running cluster.
    """
    checks = selected_checks(select)
    cluster = cluster_given(cluster, Cluster.live)
    found, notes = _examined(cluster)
    findings = run_checks(found, checks)
    if cluster.origin.place == "cluster" and needs_confirmation(findings, checks):
        time.sleep(_SECOND_LOOK_SECONDS)
        found, notes = _examined(cluster)
        findings = confirmed(findings, run_checks(found, checks), checks)
    return DoctorReport(found, findings, checks, notes)


def _examined(cluster: Cluster) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """Return the state of a cluster, and notes about reading it."""
    source = cluster.source
    if source.origin.place == "cluster":
        from allotment.api.clusters.examination import examine_live
        from allotment.api.clusters.live import LiveSource

        if isinstance(source, LiveSource):  # and not a running cluster that is kept in memory
            return examine_live(source)
    if not source.has_objects:
        raise InputError("expected a cluster with objects, found only a release", argument="cluster")
    seen = _objects(source)
    found = snapshot_of(source.features(seen.values), seen.values, denied_unknown="not included in a snapshot")
    return found, tuple(f"ignored: {resource}" for resource in seen.failed)


def _objects(source: ClusterSource) -> ReadObjects:
    """Return the objects of a snapshot; those that a server accepted but are unknown here are ignored."""
    if not isinstance(source, SnapshotSource):
        return read_objects(source.trees())
    manifests = source.manifests
    if not manifests.documents:
        names = ", ".join(manifests.names)
        raise InputError(
            f"no Kubernetes objects in {names}" if names else "no Kubernetes objects in the snapshot",
            "allot snapshot -o FILE saves a cluster",
        )
    objects = (document for document in manifests if is_cluster_object(document.tree))
    if twice := tuple(defined_twice((document, namespaced_name(document.tree)) for document in objects)):
        raise InvalidManifests(twice, lambda file: None)
    return read_objects(document.tree for document in manifests)
