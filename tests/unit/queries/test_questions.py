"""The answers of queries about a cluster: equal pods once, nothing that the visitor may not see, no files."""

from __future__ import annotations

import json
from typing import Any

import pytest

import allotment
from allotment import Cluster
from allotment.api import explain
from allotment.queries.table import query_named
from allotment.screens.visibility import VisitorRights, visible_to
from allotment.watched.cluster import view_of
from allotment.watched.view import ClusterView
from tests.corpus.test_corpus import HERE
from tests.unit.queries.manifests import APP


def answer_to(view: ClusterView, query: str, /, **fields: Any) -> Any:
    found = query_named(query)
    return found.answer(view, found.converted(fields))


def with_pods(count: int) -> ClusterView:
    """A machine and pending pods that request more GPUs than it has."""
    fleet = Cluster.fleet("t4-4x-pcie").to_dict()["items"]
    template, pod = (document.tree for document in allotment.load(APP))
    metadata = {"namespace": "ml"}
    template = {**template, "metadata": {**template["metadata"], **metadata}}
    pods = [{**pod, "metadata": {"name": f"train-{number}", **metadata}} for number in range(count)]
    return view_of(Cluster.snapshot([*fleet, template, *pods]))


def test_of_many_pending_pods_equal_ones_are_explained_once() -> None:
    view = with_pods(150)
    every = answer_to(view, "why")
    assert len(every["answers"]) == 1
    assert every["notes"][0] == "150 pods of 1 kind are pending: equal pods are explained once"
    (answer,) = answer_to(view, "why", name="train-77")["answers"]
    (first,) = answer_to(view, "why", name="train-0")["answers"]
    assert (answer["name"], answer["reasons"]["headline"]) == ("ml/train-77", first["reasons"]["headline"])
    assert "explained with pod ml/train-0, which is equal" in answer["notes"][-1]
    assert not any("explained with" in note for note in first.get("notes", ()))


def test_a_named_pod_is_answered_without_trying_all_pods_again(monkeypatch: pytest.MonkeyPatch) -> None:
    view = with_pods(3)
    expected = allotment.explain(cluster=view.cluster, name="train-1").to_dict()
    assert answer_to(view, "why", name="train-1") == expected

    def evaluated(*_: object, **__: object) -> None:
        raise AssertionError("the pods are evaluated twice")

    monkeypatch.setattr(explain, "evaluate", evaluated)
    assert answer_to(view, "why", name="train-1") == expected
    assert answer_to(view, "why", name="train-2")["answers"][0]["name"] == "ml/train-2"


def test_a_class_is_answered_with_the_devices_that_it_selects() -> None:
    (found,) = answer_to(view_of(Cluster.fleet("t4")), "why", manifests=CLASS)["classes"]
    assert (found["name"], found["matched"]) == ("small", 1)


CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: small}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
"""


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("why", {}),
        ("why", {"name": "trainer"}),
        ("why", {"manifests": APP}),
        ("free", {}),
        ("free", {"tolerations": ["a"]}),
        ("would-fit", {"gpus": 2}),
        ("would-fit", {"manifests": APP}),
        ("check", {"manifests": APP}),
        ("fix", {"manifests": APP, "unsafe": True}),
        ("plan", {"manifests": APP, "catalog": ["aws"]}),
        ("what-if", {"changes": [{"action": "drain", "target": "node-a"}]}),
        ("what-if", {}),
    ],
)
def test_nothing_of_other_namespaces_is_in_an_answer(name: str, fields: dict[str, Any]) -> None:
    view = view_of(Cluster.snapshot(HERE / "devices-in-use.yaml"))
    visible = visible_to(view, VisitorRights(namespaces=frozenset({"ml"})))
    assert "research" not in json.dumps(answer_to(visible, name, **fields))
    assert "training" not in json.dumps(answer_to(visible, name, **fields))


def test_a_visitor_may_not_name_objects_of_other_namespaces() -> None:
    view = view_of(Cluster.snapshot(HERE / "devices-in-use.yaml"))
    visible = visible_to(view, VisitorRights(namespaces=frozenset({"ml"})))
    for name in ("claim/training", "pod/training-0"):
        with pytest.raises(allotment.InputError, match=f"pod or claim not found: '{name}'"):
            answer_to(visible, "why", name=name)


def test_copies_of_a_pod_are_counted_as_they_fit() -> None:
    view = view_of(Cluster.fleet("dgx-a100-40gb:2"))
    found = answer_to(view, "would-fit", gpus=4, memory="40GB", copies=5)
    assert (found["pods"], found["fitting"], found["fits"]) == (5, 4, False)
    (refused,) = found["refused"]
    assert (refused["code"], refused["count"], refused["first"]) == ("devices-in-use", 1, "default/would-fit-4")
    assert "replicas: 5" in found["manifests"]


def test_devices_that_the_cluster_does_not_have_are_a_refusal_with_a_code() -> None:
    found = answer_to(view_of(Cluster.fleet("t4")), "would-fit", model="H100")
    (refused,) = found["refused"]
    assert refused["code"] == "selector-matches-nothing"


def test_a_release_alone_has_no_devices() -> None:
    view = view_of(Cluster(kube="1.35"))
    assert answer_to(view, "would-fit", gpus=1)["refused"][0]["code"] == "driver-missing"
    assert "place" not in answer_to(view, "check", manifests=APP)["summary"]


def test_fixed_texts_keep_their_file_names() -> None:
    view = view_of(Cluster.fleet("dgx-a100-40gb"))
    found = answer_to(view, "fix", files={"a.yaml": APP}, unsafe=True)
    assert found["texts"] == {"a.yaml": APP.replace("9", "8")}
    assert [(each["code"], each["file"]) for each in found["fixed"]] == [("P501", "a.yaml")]


def test_codes_of_all_kinds_are_explained_in_any_case() -> None:
    view = view_of(Cluster())
    kinds = {code: answer_to(view, "explain-code", code=code)["kind"] for code in ("Devices-In-Use", "m401", "d301")}
    assert kinds == {"Devices-In-Use": "reason", "m401": "rule", "d301": "check"}
    with pytest.raises(allotment.InputError, match="did you mean devices-in-use"):
        answer_to(view, "explain-code", code="device-in-use")
