"""The behavior of kubelets that depends on the release and its feature gates."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.kubelet_plugin.messages import health_services
from allotment.model.features import DECLARED, Features
from allotment.model.pod_groups import GATE as GROUP_CLAIMS
from allotment.model.releases import release_table
from allotment.model.validation.node_operations import PREPARE, UNPREPARE

#: Kubelets' metrics of skipped operations, by name.
SKIP_METRICS: Final = {"dra_node_prepare_skips_total": PREPARE, "dra_node_unprepare_skips_total": UNPREPARE}


class KubeletFeatures(NamedTuple):
    """The features of a kubelet; the defaults are those of 1.37 without gates."""

    group_claims: bool = False
    """Pods may use a claim that was generated and reserved for their PodGroup (KEP-5729)."""
    optional_node_operations: bool = False
    """A claim whose devices do not need an operation of their driver is handled without it (KEP-5945)."""
    declared: tuple[str, ...] = ()
    """The DRA features in the node's ``status.declaredFeatures``, sorted."""
    rejects_during_unprepare: bool = True
    """From 1.37: a pod cannot use a claim whose unprepare has started; earlier releases prepare it."""
    health_services: tuple[str, ...] = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
    """The versions of the health service that the kubelet calls, in the order of its preference."""
    metrics: frozenset[str] = frozenset(SKIP_METRICS)
    """The metrics that the kubelet has and that nodes count: from 1.37 those of skipped operations (KEP-5945)."""


DEFAULT_FEATURES: Final = KubeletFeatures()


def kubelet_features(features: Features) -> KubeletFeatures:
    """The features of the kubelets of a cluster.

    >>> kubelet_features(Features("1.36")).health_services
    ('v1alpha1.DRAResourceHealth',)
    """
    declared = tuple(gate for gate in DECLARED if features.enabled(gate)) if _declares(features) else ()
    return KubeletFeatures(
        group_claims=features.enabled(GROUP_CLAIMS),
        optional_node_operations=features.enabled("DRAOptionalNodeOperations"),
        declared=declared,
        rejects_during_unprepare=features.since("1.37"),
        health_services=health_services(features),
        metrics=frozenset(release_table(features.kube).metrics["kubelet"]).intersection(SKIP_METRICS),
    )


def _declares(features: Features) -> bool:
    """Whether kubelets declare DRA features: from 1.37, in which schedulers and admission read them."""
    return (
        features.enabled("NodeDeclaredFeatures") and "DRAOptionalNodeOperations" in release_table(features.kube).gates
    )
