"""A node whose search for devices is given up: other nodes are tried, and it is not said that the pod does not fit."""

from __future__ import annotations

from functools import partial

import pytest

from allotment.engine.allocator import Allocator
from allotment.model.core import Container, Pod, PodResourceClaim, PodSpec
from allotment.model.meta import Object, ObjectMeta
from allotment.tools.explain import explain, fits, lines
from tests.unit.engine.exploding import card, eight, plain
from tests.unit.engine.objects import FEATURES, class_of

LIMIT = 500
POD = Pod(
    metadata=ObjectMeta(name="p", namespace="default"),
    spec=PodSpec(
        containers=(Container(name="c"),), resource_claims=(PodResourceClaim(name="d", resource_claim_name="c"),)
    ),
)
CARD: tuple[Object, ...] = (*card("n1"), class_of(), eight(), POD)


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = partial(Allocator, step_limit=LIMIT)
    monkeypatch.setattr("allotment.tools.explain.run.Allocator", limited)
    monkeypatch.setattr("allotment.engine.diagnosis.trial_cache.Allocator", limited)


def test_the_next_node_is_tried() -> None:
    (answer,) = explain((plain("n2"), *CARD), FEATURES).answers
    assert (answer.outcome, answer.node) == ("fits", "n2")
    assert fits((plain("n2"), *CARD), FEATURES)


def test_without_another_node_the_pod_is_undecided() -> None:
    explanation = explain((plain("n2", 2), *CARD), FEATURES)
    (answer,) = explanation.answers
    assert answer.reasons is not None
    assert (answer.outcome, answer.reasons.headline.code) == ("refused", "search-given-up")
    text = lines(explanation, width=1000)
    assert text[0] == (
        f"Pod default/p is undecided: on n1 the search for devices was given up after {LIMIT} steps (search-given-up)"
    )
    assert "  n2: 8 devices asked, the node has 2 (too-few-devices)" in text
    assert not fits((plain("n2", 2), *CARD), FEATURES)


def test_nodes_that_are_alike_are_named_together() -> None:
    (answer,) = explain((*card("n0"), *CARD), FEATURES).answers
    assert answer.reasons is not None
    assert [row.nodes for row in answer.reasons.nodes] == [("n0", "n1")]
