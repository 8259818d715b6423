"""The versions of ``resource.k8s.io`` in each Kubernetes release, by kind.

Source: KEP-4381 and the lifecycle tags of the Go types. Alpha and beta versions are off unless ``--runtime-config``
enables them (KEP-3136); v1 is always served.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: The current version of claims, templates, classes and slices.
HUB: Final = "v1"

#: Versions with the fields of requests next to the name, and those of devices under ``basic``.
FLAT_VERSIONS: Final = frozenset({"v1beta1", "v1alpha3"})


class VersionLifetime(NamedTuple):
    """The first release that has a version, and the first that no longer has it (empty: undecided)."""

    since: str
    removed: str = ""

    def exists_in(self, kube: str) -> bool:
        return _release_key(self.since) <= _release_key(kube) and not self.is_removed_in(kube)

    def is_removed_in(self, kube: str) -> bool:
        return bool(self.removed) and _release_key(self.removed) <= _release_key(kube)


_CORE_KINDS: Final = {
    "v1alpha3": VersionLifetime("1.31", "1.34"),
    "v1beta1": VersionLifetime("1.32", "1.38"),
    "v1beta2": VersionLifetime("1.33", "1.39"),
    "v1": VersionLifetime("1.34"),
}

#: The versions of each kind, oldest first.
VERSIONS: Final[dict[str, dict[str, VersionLifetime]]] = {
    "DeviceClass": _CORE_KINDS,
    "ResourceClaim": _CORE_KINDS,
    "ResourceClaimTemplate": _CORE_KINDS,
    "ResourceSlice": _CORE_KINDS,
    "DeviceTaintRule": {
        "v1alpha3": VersionLifetime("1.33", "1.39"),
        "v1beta2": VersionLifetime("1.36", "1.42"),
        "v1": VersionLifetime("1.37"),
    },
    "ResourcePoolStatusRequest": {"v1alpha3": VersionLifetime("1.36", "1.42")},
}


def _release_key(release: str) -> tuple[int, ...]:
    """A release as a comparable value: ``1.36`` is (1, 36)."""
    return tuple(map(int, release.split(".")))


def newest_version(kind: str, kube: str) -> str:
    """The newest version of a kind in a release; empty if the release has none."""
    available = [version for version, life in VERSIONS.get(kind, {}).items() if life.exists_in(kube)]
    return available[-1] if available else ""
