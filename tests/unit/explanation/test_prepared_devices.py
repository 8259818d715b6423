"""Explanations on prepared devices are those of `explain`, and leave the devices as they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Thread

import pytest

from allotment import Cluster
from allotment.api.load import text_manifests
from allotment.explanation import Explanation, explain
from allotment.explanation.prepared_devices import PreparedDevices
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_tree
from allotment.model.meta import Object
from allotment.model.trees import Tree
from tests.corpus.test_agreement import NAMES, is_written
from tests.corpus.test_corpus import Scenario
from tests.unit.queries.manifests import APP

pytestmark = pytest.mark.usefixtures("short_searches")


def objects(trees: Iterable[Tree]) -> tuple[Object, ...]:
    documents = [document for tree in trees for document in load_tree(tree, "objects").documents]
    return tuple(m.value for m in decode_all(documents).manifests if isinstance(m.value, Object))


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_of_a_scenario_are_the_same(name: str) -> None:
    scenario = Scenario(name)
    trees = [document.tree for document in scenario.documents]
    cluster = objects(tree for tree in trees if not is_written(tree))
    new = objects(tree for tree in trees if is_written(tree))
    values = objects_to_explain(cluster, new)
    others = other_pods(cluster, values)
    expected = explain(values, scenario.features, others=others)
    prepared = PreparedDevices(scenario.features)
    assert prepared.explain(values, others) == expected
    assert prepared.explain(values, others) == expected
    alone = objects_to_explain(cluster, ())
    assert prepared.explain(alone) == explain(alone, scenario.features), "the devices are as they were"


FLEET = Cluster.fleet("dgx-a100-40gb:2").read().cluster


def answers(prepared: PreparedDevices, count: int, namespace: str = "default") -> Explanation:
    text = APP.replace("9", str(count))
    new = text_manifests(text).validated(Features("1.36"), namespace)
    values = objects_to_explain(FLEET, new)
    return prepared.explain(values)


def test_pods_of_one_explanation_compete_and_those_of_different_ones_do_not() -> None:
    prepared = PreparedDevices(Features("1.36"))
    assert [answers(prepared, 8).fits for _ in range(4)] == [True] * 4
    assert not answers(prepared, 9).fits
    assert answers(prepared, 8).fits


def test_threads_wait_for_each_other() -> None:
    prepared = PreparedDevices(Features("1.36"))
    found: list[Sequence[bool]] = []

    def run(namespace: str) -> None:
        found.append([answers(prepared, count, namespace).fits for count in (8, 9, 1, 8)])

    threads = [Thread(target=run, args=(f"ns-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[True, False, True, True]] * 4
