"""Questions about manifests: what the commands answer, and mistakes as part of the answer."""

from __future__ import annotations

import json

import pytest

import allotment
from allotment.api.cluster import Cluster
from allotment.api.load import text_manifests
from allotment.screens.device_map import device_map
from allotment.screens.manifest_editor import FILE, EditorRequest, editor_answer, editor_choices
from allotment.screens.what_if import WhatIfRequest, what_if
from allotment.watched.cluster import view_of
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import fleet, view


@pytest.fixture(scope="module")
def cluster() -> ClusterView:
    return view(*fleet("t4-4x-pcie"))


@pytest.fixture(scope="module")
def text(cluster: ClusterView) -> str:
    return editor_choices(cluster).example


def test_the_answer_on_the_cluster_is_that_of_the_commands(cluster: ClusterView, text: str) -> None:
    answer = editor_answer(cluster, EditorRequest(text))
    manifests = text_manifests(text, FILE)
    assert answer.explanation == allotment.explain(manifests, cluster.cluster).to_dict()
    assert answer.check == allotment.check(manifests, cluster=cluster.cluster, isolated=True).to_dict()
    assert answer.plan is None


def test_machines_can_be_described(cluster: ClusterView, text: str) -> None:
    answer = editor_answer(cluster, EditorRequest(text, "fleet", "dgx-a100-40gb:2,t4-4x-pcie"))
    assert answer.explanation is not None
    assert answer.explanation["fits"]
    assert answer.command == f"allot explain -f {FILE} --fleet dgx-a100-40gb:2,t4-4x-pcie"


def test_without_a_cluster_machines_are_planned(cluster: ClusterView, text: str) -> None:
    answer = editor_answer(cluster, EditorRequest(text, "none"))
    assert answer.plan is not None
    assert answer.plan["machines"]
    assert answer.explanation is None


def test_a_playground_has_no_command_for_the_current_context() -> None:
    """Only a release is known: the commands would answer for whatever cluster kubectl has selected."""
    playground = view_of(Cluster(kube="1.36"))
    assert editor_choices(playground).command.startswith(f"allot plan {FILE} ")
    assert device_map(playground).command == ""
    assert what_if(playground, WhatIfRequest()).command == ""


def test_the_example_is_only_the_manifest_and_what_it_is_about(text: str) -> None:
    assert text.startswith("# One Ampere GPU")
    assert "Expect" not in text


def test_a_snapshot_can_be_pasted(cluster: ClusterView, text: str) -> None:
    slices = allotment.reference.slices("dgx-a100-40gb", everything=True)
    answer = editor_answer(cluster, EditorRequest(text, "snapshot", snapshot=json.dumps(slices)))
    assert answer.explanation is not None
    assert answer.explanation["fits"]


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (EditorRequest("a: [b\n"), "invalid YAML"),
        (EditorRequest("/etc/passwd"), "expected an object"),
        (EditorRequest("-"), "expected an object"),
        (EditorRequest(""), "no Kubernetes objects"),
        (EditorRequest("kind: Pod\n", "fleet", "nonsense"), "unknown hardware"),
        (EditorRequest("kind: Pod\n", "fleet", "t4:9000"), "at most 2000 machines"),
        (EditorRequest("kind: Pod\n", "snapshot"), "expected the text of a snapshot"),
    ],
)
def test_mistakes_are_part_of_the_answer(cluster: ClusterView, request_: EditorRequest, problem: str) -> None:
    answer = editor_answer(cluster, request_)
    assert any(problem in each.message for each in answer.problems)
    assert answer.explanation is None


def test_problems_have_their_position(cluster: ClusterView) -> None:
    (problem,) = editor_answer(cluster, EditorRequest("a: [b\n")).problems
    assert (problem.line, problem.column) == (2, 1)


def test_the_names_of_the_cluster_come_first(cluster: ClusterView) -> None:
    vocabulary = editor_choices(cluster).vocabulary
    assert vocabulary.classes[0] == "gpu.nvidia.com"
    names = {(each.driver, each.name): each for each in vocabulary.attributes}
    assert names["gpu.nvidia.com", "productName"].values[0] == "Tesla T4"
    assert ("gpu.nvidia.com", "memory") in {(each.driver, each.name) for each in vocabulary.capacities}


def test_a_shell_does_not_interpret_the_command(cluster: ClusterView) -> None:
    assert editor_answer(cluster, EditorRequest("a", "fleet", "t4; rm -rf /")).command.endswith(
        "--fleet 't4; rm -rf /'"
    )
