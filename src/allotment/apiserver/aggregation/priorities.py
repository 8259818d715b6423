"""Priorities of the groups and versions that kube-apiserver serves, which order them in discovery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The priority of each group, and those of its versions.
_PRIORITIES: Final[Mapping[str, tuple[int, Mapping[str, int]]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "events.k8s.io": (17750, {"v1": 15, "v1beta1": 5}),
    "authentication.k8s.io": (17700, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "authorization.k8s.io": (17600, {"v1": 15}),
    "autoscaling": (17500, {"v1": 15, "v2": 30, "v2beta1": 9, "v2beta2": 1}),
    "batch": (17400, {"v1": 15, "v1beta1": 9, "v2alpha1": 9}),
    "certificates.k8s.io": (17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking.k8s.io": (17200, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15, "v1beta1": 9}),
    "rbac.authorization.k8s.io": (17000, {"v1": 15}),
    "storage.k8s.io": (16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "apiextensions.k8s.io": (16700, {"v1": 15}),
    "admissionregistration.k8s.io": (16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "scheduling.k8s.io": (16600, {"v1": 15, "v1beta1": 9, "v1alpha3": 3}),
    "coordination.k8s.io": (16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12}),
    "node.k8s.io": (16300, {"v1": 15, "v1alpha1": 1, "v1beta1": 9}),
    "resource.k8s.io": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 9}),
    "discovery.k8s.io": (16200, {"v1": 15, "v1beta1": 12}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21, "v1beta3": 18, "v1beta2": 15, "v1beta1": 12, "v1alpha1": 9}),
    "internal.apiserver.k8s.io": (16000, {"v1alpha1": 9}),
    "storagemigration.k8s.io": (15800, {"v1": 15, "v1beta1": 9}),
    "lifecycle.k8s.io": (15700, {"v1alpha1": 1}),
}
#: A version whose group has a priority of its own.
_OTHER_GROUPS: Final = {("resource.k8s.io", "v1alpha3"): 15_900}
#: The priorities of groups that have none.
CUSTOM_PRIORITIES: Final = (1000, 100)


def priorities(group: str, version: str) -> tuple[int, int]:
    """The priorities of a built-in group and version.

    >>> priorities("apps", "v1"), priorities("metrics.k8s.io", "v1beta1")
    ((17800, 15), (1000, 100))
    """
    of_group, versions = _PRIORITIES.get(group, (CUSTOM_PRIORITIES[0], {}))
    return _OTHER_GROUPS.get((group, version), of_group), versions.get(version, CUSTOM_PRIORITIES[1])
