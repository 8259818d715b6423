"""Kinds that the API server serves only in versions unknown to Allotment."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.known_versions import KNOWN_VERSIONS, has_no_known_version, version_mismatch
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Kinds without a known version."""
    if cluster.snapshot.served is None:
        return
    for (group, plural), known in KNOWN_VERSIONS.items():
        versions = cluster.snapshot.served.get(plural, ())
        if has_no_known_version(group, plural, versions):
            text = f"{plural}.{group} cannot be read: {version_mismatch(versions, known)}"
            words = "Upgrade Allotment. Until then, its tools and components ignore these objects."
            yield Symptom(plural, text, remedy(words, f"kubectl api-resources --api-group={group}"))


CHECK = ClusterCheck(
    code="D105",
    severity="error",
    summary="the API server serves a kind only in versions unknown to Allotment",
    why="Kinds move to new versions from release to release: DeviceTaintRules were in v1alpha3, then in v1beta2, and "
    "have been in v1 since Kubernetes 1.37 (KEP-5055). A client that knows only other versions behaves as if no such "
    "objects existed. Allotment's "
    "components log a warning, and its scheduler does not allocate devices as long as it cannot determine which ones "
    "are tainted.",
    find=find,
    needs=("served",),
)
