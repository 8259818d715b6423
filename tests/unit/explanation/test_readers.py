"""Answers for a reader who may see only some namespaces name no object of the others."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.reader import Reader
from allotment.explanation import Explanation, explain, lines
from allotment.explanation.input import Readers
from allotment.model.decoding import decode_all
from allotment.model.loading import load_text
from allotment.model.meta import Object
from tests.unit.explanation.test_explain import CLASS, FEATURES, TEMPLATE, claim, pod, slice_


def held(name: str, namespace: str, device: int) -> str:
    """A claim of another namespace that holds a device."""
    status = f"""status:
  allocation: {{devices: {{results: [{{request: gpu, driver: gpu.example.com, pool: n1, device: gpu-{device}}}]}}}}
  reservedFor: [{{resource: pods, name: secret-{device}, uid: u-{device}}}]
"""
    return claim(name, status).replace("namespace: ns", f"namespace: {namespace}")


def answer(*documents: str, readers: Readers) -> Explanation:
    decoded = decode_all(load_text("---".join((CLASS, TEMPLATE, slice_("n1", 2), *documents))).documents)
    assert not decoded.problems
    return explain([m.value for m in decoded.manifests if isinstance(m.value, Object)], FEATURES, readers=readers)


def text(explanation: Explanation) -> str:
    return " ".join(" ".join(lines(explanation)).split())


def test_holders_of_other_namespaces_are_counted_and_not_named() -> None:
    shown = text(answer(held("first", "team-a", 0), held("second", "team-b", 1), pod("p"), readers=Reader.of))
    assert "every matching device is in use by 2 claims of other namespaces (devices-in-use)" in shown
    assert "in use – 2 claims of other namespaces: gpu-0, gpu-1" in shown
    assert "to make it fit on n1: wait for 1 claim of another namespace to be released" in shown
    assert not [word for word in ("team-", "secret") if word in shown]


def test_releasing_a_claim_of_another_namespace_is_no_change_of_an_object() -> None:
    explanation = answer(held("first", "team-a", 0), held("second", "team-b", 1), pod("p"), readers=Reader.of)
    (only,) = explanation.answers
    assert only.reasons is not None
    assert [(change.object, change.path) for change in only.reasons.headline.changes] == [("", "")]


def test_own_holders_are_named_beside_the_others() -> None:
    own = held("mine", "ns", 0)
    two = TEMPLATE.replace("gpu}", "gpu, count: 2}").replace("name: one", "name: two")
    shown = text(
        answer(own, held("first", "team-a", 1), two, pod("p", "resourceClaimTemplateName: two"), readers=Reader.of)
    )
    assert "in use by claim ns/mine (pod secret-0), and 1 claim of another namespace" in shown
    assert "wait for pod secret-0 to finish (claim ns/mine), and for 1 claim of another namespace to be" in shown
    assert "team-a" not in shown


def test_a_reader_of_all_namespaces_sees_the_names() -> None:
    shown = text(answer(held("first", "team-a", 0), held("second", "team-b", 1), pod("p"), readers=lambda _: Reader()))
    assert "claim team-a/first (pod secret-0)" in shown


def test_cached_reasons_are_not_shared_between_readers() -> None:
    """Both pods request the same; the devices belong to one of their tenants."""
    mine, other = pod("p"), pod("q").replace("namespace: ns", "namespace: team-a")
    template = TEMPLATE.replace("namespace: ns", "namespace: team-a")
    holding = held("first", "team-a", 0), held("second", "team-a", 1)
    explanation = answer(*holding, template, mine, other, readers=Reader.of)
    mine_text, other_text = (str(found.reasons) for found in explanation.answers)
    assert "team-a/first" not in mine_text
    assert "team-a/first" in other_text


def test_tenants_who_hold_no_devices_share_one_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    diagnose = Diagnoser.diagnose

    def counted(self: Diagnoser, *given: Any, **named: Any) -> Any:
        calls.append(given)
        return diagnose(self, *given, **named)

    monkeypatch.setattr(Diagnoser, "diagnose", counted)
    documents = [
        document.replace("namespace: ns", f"namespace: tenant-{number}")
        for number in range(5)
        for document in (TEMPLATE, pod("p"))
    ]
    answer(held("first", "team-a", 0), held("second", "team-b", 1), *documents, readers=Reader.of)
    assert len(calls) == 1
