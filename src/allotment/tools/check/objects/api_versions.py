"""Which versions of ``resource.k8s.io`` each release of Kubernetes has, by kind.

Source: KEP-4381 and the lifecycle tags of the Go types. Alpha and beta versions are off unless ``--runtime-config``
switches them on (KEP-3136); v1 is always there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: The version of claims, templates, classes and slices today.
HUB: Final = "v1"

#: Requests and devices of these have their fields beside the name, or under ``basic``.
FLAT: Final = frozenset({"v1beta1", "v1alpha3"})


class Life(NamedTuple):
    """The first release that has a version, and the first that no longer has it (empty: not decided)."""

    since: str
    gone: str = ""

    def in_release(self, kube: str) -> bool:
        """Whether a release has it."""
        return _number(self.since) <= _number(kube) and not self.over(kube)

    def over(self, kube: str) -> bool:
        """Whether a release no longer has it."""
        return bool(self.gone) and _number(self.gone) <= _number(kube)


_MAIN: Final = {
    "v1alpha3": Life("1.31", "1.34"),
    "v1beta1": Life("1.32", "1.38"),
    "v1beta2": Life("1.33", "1.39"),
    "v1": Life("1.34"),
}

#: By kind, the versions from old to new.
VERSIONS: Final[dict[str, dict[str, Life]]] = {
    "DeviceClass": _MAIN,
    "ResourceClaim": _MAIN,
    "ResourceClaimTemplate": _MAIN,
    "ResourceSlice": _MAIN,
    "DeviceTaintRule": {"v1alpha3": Life("1.33", "1.39"), "v1beta2": Life("1.36", "1.42"), "v1": Life("1.37")},
    "ResourcePoolStatusRequest": {"v1alpha3": Life("1.36", "1.42")},
}


def _number(release: str) -> tuple[int, ...]:
    """A release as something that can be compared: ``1.36`` is (1, 36)."""
    return tuple(map(int, release.split(".")))


def newest(kind: str, kube: str) -> str:
    """The newest version of a kind in a release; empty where the release has none."""
    found = [version for version, life in VERSIONS.get(kind, {}).items() if life.in_release(kube)]
    return found[-1] if found else ""
