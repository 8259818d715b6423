"""The Kubernetes release and feature gates that a run models.

A gate whose default is locked cannot be changed. A gate that a release no longer has was removed with its feature, or,
if it was stable, because the feature is always on.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.model.releases import RELEASES, Gate, release_key, release_table

#: Gates for workloads, nodes and validation that Allotment implements besides those of DRA.
_OTHER_GATES: Final = frozenset(
    {
        "CompositePodGroup", "DeclarativeValidationBeta", "DynamicResourceAllocation", "GangScheduling",
        "GenericWorkload", "NodeDeclaredFeatures", "PodGroupPreemptionPolicy", "ResourceHealthStatus",
        "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption", "WorkloadWithJob",
    }
)  # fmt: skip


def _gates() -> dict[str, dict[str, Gate]]:
    found: dict[str, dict[str, Gate]] = {}
    for release in RELEASES:
        for name, gate in release_table(release).gates.items():
            if name.startswith("DRA") or name in _OTHER_GATES:
                found.setdefault(name, {})[release] = gate
    return dict(sorted(found.items()))


#: The gates that Allotment implements, by name and release.
GATES: Final[Mapping[str, Mapping[str, Gate]]] = _gates()
#: Resources of ``resource.k8s.io`` and ``scheduling.k8s.io`` that are served only if gates are on, which they reveal.
#: Claims of groups have a gate of their own; without it, the server drops them from every group.
GATED_RESOURCES: Mapping[str, tuple[str, ...]] = {
    "devicetaintrules": ("DRADeviceTaintRules",),
    "resourcepoolstatusrequests": ("DRAResourcePoolStatus",),
    "podgroups": ("GenericWorkload", "DRAWorkloadResourceClaims"),
    "compositepodgroups": ("CompositePodGroup", "TopologyAwareWorkloadScheduling"),
}  # fmt: skip
#: Gates that a kubelet from 1.37 on declares in ``status.declaredFeatures`` of its node if they are on (KEP-5328).
DECLARED: Final = ("DRANodeAllocatableResources", "DRAOptionalNodeOperations")
#: Gates that set all gates of a stage.
STAGES: Final = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
_MINOR = re.compile(r"v?1\.([0-9]+)")


def gates_of_resources(served: Container[str]) -> dict[str, bool]:
    """The gates that must be on because these resources, by plural, are served.

    >>> gates_of_resources({"pods", "devicetaintrules"})
    {'DRADeviceTaintRules': True}
    """
    return {gate: True for plural, gates in GATED_RESOURCES.items() if plural in served for gate in gates}


def modelled_release(version: str) -> str:
    """The modelled release for a version: the newest one for newer versions, the oldest one for older versions.

    >>> modelled_release("v1.36.2-gke.100"), modelled_release("1.99"), modelled_release("v1.33.1")
    ('1.36', '1.37', '1.34')
    """
    match = _MINOR.match(version)
    minors = [int(release.partition(".")[2]) for release in RELEASES]
    requested = int(match[1]) if match else minors[-1]
    return RELEASES[max((index for index, minor in enumerate(minors) if minor <= requested), default=0)]


def with_stages(chosen: Mapping[str, bool], kube: str) -> dict[str, bool]:
    """The gates of ``--feature-gates`` as a release sets them: those of ``AllAlpha`` and ``AllBeta`` come first.

    >>> gates = with_stages({"AllAlpha": True, "DRADerivedAttributes": False}, "1.37")
    >>> gates["DRADerivedAttributes"], gates["DRADeviceCompatibilityGroups"], "DRADeviceTaints" in gates
    (False, True, False)
    """
    of_stages = {
        name: chosen[special]
        for special, stage in STAGES.items()
        if special in chosen
        for name, gate in release_table(kube).gates.items()
        if gate.stage == stage and not gate.locked
    }
    return {**of_stages, **{name: enabled for name, enabled in chosen.items() if name not in STAGES}}


def on_by_default_since(gate: str) -> str:
    """The first modeled release in which a gate is on by default; empty if there is none.

    >>> on_by_default_since("DRAExtendedResource"), on_by_default_since("DRADerivedAttributes")
    ('1.36', '')
    """
    return next((release for release, found in GATES[gate].items() if found.default), "")


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a cluster: its release, and the gates that differ from the defaults of that release.

    >>> Features(kube="1.35").enabled("DRADeviceTaints")
    False
    >>> Features(kube="1.36", gates={"DRADeviceTaints": False}).enabled("DRADeviceTaints")
    False
    """

    kube: str
    gates: Mapping[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kube not in RELEASES:
            raise ValueError(f"Kubernetes release: expected one of {', '.join(RELEASES)}, found {self.kube!r}")
        for gate in self.gates:
            if gate not in GATES:
                raise ValueError(f"feature gate: {gate!r} is unknown to Kubernetes {self.kube}")

    def enabled(self, gate: str) -> bool:
        """Whether a gate is on. One that the release does not have is off, or on if it was removed as stable."""
        in_release = GATES[gate].get(self.kube)
        if in_release is None:
            older = [GATES[gate][kube] for kube in RELEASES[: RELEASES.index(self.kube)] if kube in GATES[gate]]
            return bool(older) and older[-1].stage == "GA"
        return self.gates.get(gate, in_release.default)

    def since(self, release: str) -> bool:
        """Whether the release is this one or newer, for changes that no gate controls.

        >>> Features("1.37").since("1.37"), Features("1.36").since("1.37")
        (True, False)
        """
        return release_key(self.kube) >= release_key(release)

    def __hash__(self) -> int:
        return hash((self.kube, tuple(sorted(self.gates.items()))))
