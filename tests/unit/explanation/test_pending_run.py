"""Pending pods that are explained once for each shape, and changes that are tried at a pod's turn."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.engine.refusal import SuggestedChange
from allotment.explanation import explain
from allotment.explanation.pending_run import NotApplicable, PendingRun, is_applicable
from allotment.model.core import Pod
from tests.corpus.test_corpus import HERE, Scenario, head

NAMES = sorted(
    name
    for path in HERE.glob("**/*.yaml")
    if "code" in head(name := str(path.relative_to(HERE).with_suffix(""))) and head(name)["code"] != "search-given-up"
)


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_explain(name: str) -> None:
    scenario = Scenario(name)
    expected = {answer.name: answer for answer in scenario.explain().answers}
    run = PendingRun(scenario.values, scenario.features)
    assert {found.answer.name: found.answer for found in run.answers}.items() <= expected.items()
    members = {str(pod.key) for found in run.answers for pod in found.pods}
    assert members | {found.answer.name for found in run.answers} == expected.keys()


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_tried_without_a_trace(name: str) -> None:
    """After trials the devices are held by the same claims as before."""
    scenario = Scenario(name)
    run = PendingRun(scenario.values, scenario.features)
    before = dict(run.claims)
    held = run.allocations()
    for found in run.answers:
        reasons = found.answer.reasons
        for changes in (reasons.headline.changes, reasons.headline.otherwise) if reasons is not None else ():
            if is_applicable(changes):
                first = run.after(found.answer, changes)
                assert first.fits
                assert run.after(found.answer, changes) == first
    assert dict(run.claims) == before
    assert run.allocations() == held


def test_equal_pods_are_explained_once() -> None:
    scenario = Scenario("not-enough-capacity")
    pod = next(value for value in scenario.values if isinstance(value, Pod))
    copies = [replace(pod, metadata=replace(pod.metadata, name=f"copy-{number}")) for number in range(9)]
    run = PendingRun([*scenario.values, *copies], scenario.features)
    (found,) = run.answers
    assert len(found.pods) == 10
    assert found.answer == explain(scenario.values, scenario.features).answers[0]


def test_a_change_of_an_object_that_does_not_exist() -> None:
    scenario = Scenario("not-enough-capacity")
    run = PendingRun(scenario.values, scenario.features)
    change = SuggestedChange("use it", "DeviceClass missing", "spec.selectors", remedy="of-class")
    with pytest.raises(NotApplicable, match="DeviceClass missing does not exist"):
        run.after(run.answers[0].answer, (change,))
    with pytest.raises(NotApplicable, match="no object"):
        run.after(run.answers[0].answer, (SuggestedChange("wait", remedy="driver"),))
