"""A misspelled PodGroup, or a misspelled label of its topology, is corrected if the pods then fit together."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import SuggestedChange
from tests.unit.explanation.test_explain import slice_
from tests.unit.explanation.test_gangs import explained, gang, members, node

DEVICES = slice_("a", 2)


def first_changes(*manifests: str) -> list[SuggestedChange | None]:
    """The first change in the answer for each pod that is refused."""
    reasons = (answer.reasons for answer in explained(*manifests).answers)
    return [next(iter(r.headline.changes), None) for r in reasons if r is not None]


def test_each_pod_gets_the_similar_name_of_its_group() -> None:
    changes = first_changes(DEVICES, gang(2, "train"), *members(2, of="trian"))
    assert [(c.object, c.path, c.becomes) for c in changes if c is not None] == [
        ("Pod ns/p0", "spec.schedulingGroup.podGroupName", "train"),
        ("Pod ns/p1", "spec.schedulingGroup.podGroupName", "train"),
    ]


def test_pods_that_already_belong_to_the_group_count() -> None:
    (change,) = first_changes(DEVICES, gang(2, "train"), *members(1, of="train"), *members(1, 1, of="trian"))[1:]
    assert change is not None
    assert (change.object, change.becomes) == ("Pod ns/p1", "train")


@pytest.mark.parametrize("minimum", [3, 4])
def test_no_correction_if_the_pods_do_not_fit_together_then(minimum: int) -> None:
    assert first_changes(DEVICES, gang(minimum, "train"), *members(2, of="trian")) == [None, None]


@pytest.mark.parametrize("key", ["example.com/rak", "exampel.com/rack"])
def test_a_misspelled_label_of_the_topology(key: str) -> None:
    labels = "{example.com/rack: r1, example.com/zone: z1}"
    topology = f"schedulingConstraints: {{topology: [{{key: {key}}}]}}"
    changes = first_changes(DEVICES, node("a", labels), gang(2, more=topology), *members(2))
    assert [c.becomes for c in changes if c is not None] == ["example.com/rack"] * 2


def test_another_label_of_the_domain_is_not_suggested() -> None:
    topology = "schedulingConstraints: {topology: [{key: example.com/rack}]}"
    assert first_changes(DEVICES, node("a", "{example.com/zone: z1}"), gang(2, more=topology), *members(2)) == [
        None,
        None,
    ]
