"""Versions of kinds that change from release to release, as far as they are known here.

A server may have a kind only in versions that are not among these: it is newer, or much older. Its objects cannot be
read then, and that must not be taken for a cluster without any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from allotment.model.fields import GROUP
from allotment.phrases import listed

_MAIN: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")

#: By group and plural, the newest version first. Kinds that are not listed have been stable for long.
KNOWN_VERSIONS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    (GROUP, "deviceclasses"): _MAIN,
    (GROUP, "resourceclaims"): _MAIN,
    (GROUP, "resourceclaimtemplates"): _MAIN,
    (GROUP, "resourceslices"): _MAIN,
    # KEP-5055: v1alpha3 from 1.33, v1beta2 from 1.36, v1 from 1.37.
    (GROUP, "devicetaintrules"): ("v1", "v1beta2", "v1alpha3"),
    (GROUP, "resourcepoolstatusrequests"): ("v1alpha3",),
    ("scheduling.k8s.io", "podgroups"): ("v1alpha2",),
}


def newest_known(group: str, plural: str, served: Collection[str]) -> str:
    """The newest of the served versions of a resource that is known; empty if there is none.

    >>> newest_known("resource.k8s.io", "devicetaintrules", ["v1alpha3", "v1beta2", "v2"])
    'v1beta2'
    """
    return next((version for version in KNOWN_VERSIONS.get((group, plural), ()) if version in served), "")


def has_no_known_version(group: str, plural: str, served: Collection[str]) -> bool:
    """Whether a resource is served, and in no version that is known."""
    return bool(served) and (group, plural) in KNOWN_VERSIONS and not newest_known(group, plural, served)


def version_mismatch(served: Iterable[str], known: Iterable[str]) -> str:
    """Why the objects of a resource cannot be read that a cluster serves in none of the known versions.

    >>> version_mismatch(["v3", "v2"], ["v1", "v1beta2"])
    'served only in v2 and v3; this release of Allotment reads v1 and v1beta2'
    """
    return f"served only in {listed(sorted(served))}; this release of Allotment reads {listed(known)}"
