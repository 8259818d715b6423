"""The versions of unstable kinds that this release of Allotment can read.

A newer or much older server can serve a kind only in other versions. Its objects then cannot be read, which must not be
confused with a cluster without such objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from allotment.model.fields import GROUP
from allotment.phrases import listed

_GROUPS: Final = ("v1beta1", "v1alpha3", "v1alpha2")
_MAIN: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")

#: By group and plural, newest version first. Kinds that are not listed are stable.
KNOWN_VERSIONS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    (GROUP, "deviceclasses"): _MAIN,
    (GROUP, "resourceclaims"): _MAIN,
    (GROUP, "resourceclaimtemplates"): _MAIN,
    (GROUP, "resourceslices"): _MAIN,
    # KEP-5055: v1alpha3 from 1.33, v1beta2 from 1.36, v1 from 1.37.
    (GROUP, "devicetaintrules"): ("v1", "v1beta2", "v1alpha3"),
    (GROUP, "resourcepoolstatusrequests"): ("v1alpha3",),
    # KEP-4671: v1alpha2 in 1.36, v1beta1 and v1alpha3 from 1.37.
    **dict.fromkeys((("scheduling.k8s.io", plural) for plural in ("podgroups", "workloads")), _GROUPS),
    # KEP-5732
    ("scheduling.k8s.io", "compositepodgroups"): ("v1alpha3",),
}


def newest_known(group: str, plural: str, served: Collection[str]) -> str:
    """The newest served version of a resource that is known; empty if there is none.

    >>> newest_known("resource.k8s.io", "devicetaintrules", ["v1alpha3", "v1beta2", "v2"])
    'v1beta2'
    """
    return next((version for version in KNOWN_VERSIONS.get((group, plural), ()) if version in served), "")


def has_no_known_version(group: str, plural: str, served: Collection[str]) -> bool:
    """Whether a resource is served, but not in any known version."""
    return bool(served) and (group, plural) in KNOWN_VERSIONS and not newest_known(group, plural, served)


def version_mismatch(served: Iterable[str], supported: Iterable[str]) -> str:
    """The message for a resource that a cluster serves in unknown versions only.

    >>> version_mismatch(["v3", "v2"], ["v1", "v1beta2"])
    'served only in v2 and v3; this release of Allotment reads v1 and v1beta2'
    """
    return f"served only in {listed(sorted(served))}; this release of Allotment reads {listed(supported)}"
