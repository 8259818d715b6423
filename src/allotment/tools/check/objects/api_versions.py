"""The versions of ``resource.k8s.io`` and ``scheduling.k8s.io`` by kind, and the releases that have and serve them.

Source: the release tables, which contain the lifecycle tags of the Go types. Alpha and beta versions are off unless
``--runtime-config`` enables them (KEP-3136).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.model import group_versions
from allotment.model.fields import GROUP, REMOVED_KINDS, REMOVED_LIFECYCLE, REMOVED_VERSION, version_key
from allotment.model.loading import Document
from allotment.model.releases import RELEASES, ApiResource, release_key, release_table

#: The current version of claims, templates, classes and slices.
HUB: Final = "v1"

#: Versions with the fields of requests next to the name, and those of devices under ``basic``.
FLAT_VERSIONS: Final = frozenset({"v1beta1", "v1alpha3"})

#: The groups whose kinds have several versions.
GROUPS: Final = (GROUP, group_versions.GROUP)


class VersionLifetime(NamedTuple):
    """The first release that has a version, and the first that no longer has it (empty: undecided)."""

    since: str
    removed: str = ""

    def exists_in(self, kube: str) -> bool:
        return release_key(self.since) <= release_key(kube) and not self.is_removed_in(kube)

    def is_removed_in(self, kube: str) -> bool:
        return bool(self.removed) and release_key(self.removed) <= release_key(kube)


#: Versions that were removed before the oldest release table.
_REMOVED: Final = {
    (GROUP, kind, REMOVED_VERSION.rpartition("/")[2]): VersionLifetime(
        REMOVED_LIFECYCLE.introduced, REMOVED_LIFECYCLE.removed
    )
    for kind in REMOVED_KINDS
}


def _resources(release: str) -> Iterator[tuple[tuple[str, str, str], ApiResource]]:
    """The resources of a release by group, kind and version, without subresources."""
    for group in GROUPS:
        for version, served in release_table(release).groups.get(group, {}).items():
            for name, resource in served.resources.items():
                if "/" not in name:
                    yield (group, resource.kind, version), resource


def _lifetimes() -> dict[tuple[str, str, str], VersionLifetime]:
    found = dict(_REMOVED)
    for release, following in zip(RELEASES, (*RELEASES[1:], ""), strict=True):
        remaining = dict(_resources(following)) if following else None
        for key, resource in _resources(release):
            lifecycle = resource.lifecycle
            since = found[key].since if key in found else lifecycle.introduced if lifecycle else release
            is_last = remaining is not None and key not in remaining
            planned = lifecycle.removed if lifecycle else ""
            if planned and release_key(planned) <= release_key(release):
                planned = ""  # the removal was postponed
            found[key] = VersionLifetime(since, following if is_last else planned)
    return found


def _by_kind() -> dict[tuple[str, str], dict[str, VersionLifetime]]:
    kinds: dict[tuple[str, str], dict[str, VersionLifetime]] = {}
    for (group, kind, version), lifetime in sorted(_lifetimes().items(), key=lambda item: version_key(item[0][2])):
        kinds.setdefault((group, kind), {})[version] = lifetime
    return kinds


#: The versions of each kind, by group and kind, oldest first.
VERSIONS: Final[Mapping[tuple[str, str], Mapping[str, VersionLifetime]]] = _by_kind()


def _last_release_with(lifetime: VersionLifetime) -> str:
    return [release for release in RELEASES if lifetime.exists_in(release)][-1]


#: The first release for which a version that is not served by default is an error: the last one that has v1beta1.
#: Clusters that were created with 1.32 or 1.33, when v1beta1 was the newest version, often still enable it.
REFUSED_SINCE: Final = _last_release_with(VERSIONS[GROUP, "ResourceClaim"]["v1beta1"])


def is_group(document: Document) -> bool:
    """Whether a document is of the group ``scheduling.k8s.io``, in any version."""
    return document.api_version.partition("/")[0] == group_versions.GROUP


def versions_for(document: Document) -> Mapping[str, VersionLifetime]:
    """The versions of a document's kind, oldest first; empty for kinds of other groups."""
    return VERSIONS.get((document.api_version.partition("/")[0], document.kind), {})


def newest_version(document: Document, kube: str) -> str:
    """The newest version of a document's kind in a release; empty if the release has none."""
    available = [version for version, life in versions_for(document).items() if life.exists_in(kube)]
    return available[-1] if available else ""


def is_served_by_default(document: Document, version: str, kube: str) -> bool:
    """Whether a release serves a version of a document's group without ``--runtime-config``."""
    served = release_table(kube).groups.get(document.api_version.partition("/")[0], {}).get(version)
    return served is not None and served.default
