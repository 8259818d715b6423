"""Metrics of the claim controller, under the names that kube-controller-manager has in the cluster's release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from allotment.controllers.claim_counts import ClaimCounts
from allotment.exporter.definitions import CLAIM_CONTROLLER
from allotment.exporter.metric import Family, Metric, Sample
from allotment.model.features import Features
from allotment.model.releases import release_table


def claim_families(counts: ClaimCounts, features: Features) -> Sequence[Family]:
    """Return the metrics of a release; 1.34 has no metric of existing claims."""
    names = release_table(features.kube).metrics["kube-controller-manager"]
    return [_family(metric, counts) for metric in CLAIM_CONTROLLER if metric.name in names]


def _family(metric: Metric, counts: ClaimCounts) -> Family:
    if metric.kind == "counter":
        # Until 1.36, the owner is no label.
        created: Counter[tuple[str, ...]] = Counter()
        for category, count in counts.created.items():
            labels = (category.status, _text(category.admin_access), category.owner_group, category.owner_kind)
            created[labels[: len(metric.labels)]] += count
        return Family(metric, [Sample(labels, count) for labels, count in sorted(created.items())])
    existing = sorted(counts.existing().items())
    return Family(
        metric,
        [
            Sample((_text(category.allocated), _text(category.admin_access), category.source), count)
            for category, count in existing
        ],
    )


def _text(value: bool) -> str:
    return "true" if value else "false"
