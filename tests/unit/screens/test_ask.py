"""Questions about manifests: what the commands answer, and mistakes as part of the answer."""

from __future__ import annotations

import json

import pytest

import allotment
from allotment.api.load import text_manifests
from allotment.screens.ask import FILE, AskRequest, ask, ask_choices
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import fleet, view


@pytest.fixture(scope="module")
def cluster() -> ClusterView:
    return view(*fleet("t4-4x-pcie"))


@pytest.fixture(scope="module")
def text(cluster: ClusterView) -> str:
    return ask_choices(cluster).example


def test_the_answer_on_the_cluster_is_that_of_the_commands(cluster: ClusterView, text: str) -> None:
    answer = ask(cluster, AskRequest(text))
    manifests = text_manifests(text, FILE)
    assert answer.explanation == allotment.explain(manifests, cluster.cluster).to_dict()
    assert answer.check == allotment.check(manifests, cluster=cluster.cluster, isolated=True).to_dict()
    assert answer.plan is None


def test_machines_can_be_described(cluster: ClusterView, text: str) -> None:
    answer = ask(cluster, AskRequest(text, "fleet", "dgx-a100-40gb:2,t4-4x-pcie"))
    assert answer.explanation is not None
    assert answer.explanation["fits"]
    assert answer.command == f"allot explain -f {FILE} --fleet dgx-a100-40gb:2,t4-4x-pcie"


def test_without_a_cluster_machines_are_planned(cluster: ClusterView, text: str) -> None:
    answer = ask(cluster, AskRequest(text, "none"))
    assert answer.plan is not None
    assert answer.plan["machines"]
    assert answer.explanation is None


def test_a_snapshot_can_be_pasted(cluster: ClusterView, text: str) -> None:
    slices = allotment.reference.slices("dgx-a100-40gb", everything=True)
    answer = ask(cluster, AskRequest(text, "snapshot", snapshot=json.dumps(slices)))
    assert answer.explanation is not None
    assert answer.explanation["fits"]


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (AskRequest("a: [b\n"), "invalid YAML"),
        (AskRequest("/etc/passwd"), "expected an object"),
        (AskRequest("-"), "expected an object"),
        (AskRequest(""), "no Kubernetes objects"),
        (AskRequest("kind: Pod\n", "fleet", "nonsense"), "unknown hardware"),
        (AskRequest("kind: Pod\n", "fleet", "t4:9000"), "at most 2000 machines"),
        (AskRequest("kind: Pod\n", "snapshot"), "expected the text of a snapshot"),
    ],
)
def test_mistakes_are_part_of_the_answer(cluster: ClusterView, request_: AskRequest, problem: str) -> None:
    answer = ask(cluster, request_)
    assert any(problem in each.message for each in answer.problems)
    assert answer.explanation is None


def test_problems_have_their_position(cluster: ClusterView) -> None:
    (problem,) = ask(cluster, AskRequest("a: [b\n")).problems
    assert (problem.line, problem.column) == (2, 1)


def test_the_names_of_the_cluster_come_first(cluster: ClusterView) -> None:
    vocabulary = ask_choices(cluster).vocabulary
    assert vocabulary.classes[0] == "gpu.nvidia.com"
    names = {(each.driver, each.name): each for each in vocabulary.attributes}
    assert names["gpu.nvidia.com", "productName"].values[0] == "Tesla T4"
    assert ("gpu.nvidia.com", "memory") in {(each.driver, each.name) for each in vocabulary.capacities}


def test_a_shell_does_not_interpret_the_command(cluster: ClusterView) -> None:
    assert ask(cluster, AskRequest("a", "fleet", "t4; rm -rf /")).command.endswith("--fleet 't4; rm -rf /'")
