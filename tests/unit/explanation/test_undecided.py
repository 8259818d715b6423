"""A node whose search for devices is given up: other nodes are tried, and it is not said that the pod does not fit."""

from __future__ import annotations

from functools import partial

import pytest

from allotment.engine.allocator import Allocator
from allotment.explanation import explain, fits, lines
from allotment.model.core import Container, Pod, PodResourceClaim, PodSpec
from allotment.model.meta import Object, ObjectMeta
from tests.unit.engine.hard_search import claim_for_eight, devices_without_counters, gpu_slices
from tests.unit.engine.objects import FEATURES, class_of

LIMIT = 500
POD = Pod(
    metadata=ObjectMeta(name="p", namespace="default"),
    spec=PodSpec(
        containers=(Container(name="c"),), resource_claims=(PodResourceClaim(name="d", resource_claim_name="c"),)
    ),
)
CARD: tuple[Object, ...] = (*gpu_slices("n1"), class_of(), claim_for_eight(), POD)


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = partial(Allocator, step_limit=LIMIT)
    monkeypatch.setattr("allotment.explanation.cluster_devices.Allocator", limited)
    monkeypatch.setattr("allotment.engine.diagnosis.trial_cache.Allocator", limited)


def test_the_next_node_is_tried() -> None:
    (answer,) = explain((devices_without_counters("n2"), *CARD), FEATURES).answers
    assert (answer.outcome, answer.node) == ("fits", "n2")
    assert fits((devices_without_counters("n2"), *CARD), FEATURES)


def test_without_another_node_the_pod_is_undecided() -> None:
    explanation = explain((devices_without_counters("n2", 2), *CARD), FEATURES)
    (answer,) = explanation.answers
    assert answer.reasons is not None
    assert (answer.outcome, answer.reasons.headline.code) == ("refused", "search-given-up")
    text = lines(explanation, width=1000)
    assert text[0] == (
        f"Pod default/p may or may not fit: on n1 the search for devices stopped after {LIMIT} steps without "
        "a result (search-given-up)"
    )
    assert "  n2: 8 devices requested; the node has 2 (too-few-devices)" in text
    assert not fits((devices_without_counters("n2", 2), *CARD), FEATURES)


def test_equivalent_nodes_are_reported_together() -> None:
    (answer,) = explain((*gpu_slices("n0"), *CARD), FEATURES).answers
    assert answer.reasons is not None
    assert [row.nodes for row in answer.reasons.nodes] == [("n0", "n1")]
