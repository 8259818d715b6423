"""The event's remedy contains all changes that a pod needs for an excluded node."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.world import DRIVER, claim, device_class, gpus, node, pod, world

TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


def message(*objects: tuple[Resource, Tree]) -> str:
    """The message of the condition of pod p."""

    async def shown() -> str:
        async with world(*objects, speed=20) as lab:
            await lab.until(lambda: lab.condition("p").get("message"))
            return str(lab.condition("p")["message"])

    return idle.run(shown())


def held_on(name: str) -> tuple[Resource, Tree]:
    """A claim that is allocated on a node."""
    result = {"request": "gpu", "driver": DRIVER, "pool": name, "device": "gpu-0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    return claim("one", status={"allocation": allocation, "reservedFor": []})


def test_a_request_that_is_too_large_for_the_tainted_node() -> None:
    text = message(node("a", taints=[TAINT]), gpus("a", 2), device_class(), claim("one", count=3), pod("p", "one"))
    assert "to make it fit on a: tolerate the node's taint dedicated, and request 2 devices instead of 3" in text


def test_an_extended_resource_that_is_too_large_for_the_tainted_node() -> None:
    served = device_class(extendedResourceName="example.com/gpu")
    limits: dict[str, Any] = {"limits": {"example.com/gpu": "3"}, "requests": {"example.com/gpu": "3"}}
    text = message(node("a", taints=[TAINT]), gpus("a", 2), served, pod("p", **limits))
    assert "to make it fit on a: tolerate the node's taint dedicated, and request 2 devices instead of 3" in text


def test_a_cordoned_node_does_not_help_if_the_claim_is_allocated_on_another_one() -> None:
    text = message(
        node("a"), gpus("a", 2), node("b", unschedulable=True, labels={"pool": "b"}), gpus("b", 2),
        device_class(), held_on("a"), pod("p", "one", nodeSelector={"pool": "b"}),
    )  # fmt: skip
    assert "uncordon" not in text


def test_too_many_devices_for_a_claim_are_reduced_to_those_of_nodes_that_the_pod_may_use() -> None:
    text = message(
        node("a"), gpus("a", 8), node("b", labels={"pool": "b"}), gpus("b", 2), device_class(), claim("one", count=33),
        pod("p", "one", nodeSelector={"pool": "b"}),
    )  # fmt: skip
    assert "to make it fit on b: request 2 devices instead of 33" in text


def test_a_missing_class_and_a_nodeselector_that_no_node_matches_are_corrected_together() -> None:
    wrong = claim("one", of=DRIVER.replace("gpu", "gpuu"))
    text = message(
        node("a", labels={"pool": "a"}),
        gpus("a", 2),
        device_class(),
        wrong,
        pod("p", "one", nodeSelector={"pool": "b"}),
    )
    assert f"to make it fit on a: use class {DRIVER}, and set nodeSelector pool=a" in text


def test_a_misspelled_key_is_corrected_together_with_the_claim_rather_than_dropped() -> None:
    text = message(
        node("a", labels={"example.com/pool": "a"}), gpus("a", 1), node("b"), gpus("b", 2), device_class(),
        claim("one", count=2), pod("p", "one", nodeSelector={"example.com/poool": "a"}),
    )  # fmt: skip
    assert "to make it fit on a: set nodeSelector example.com/pool=a" in text
    assert "and request 1 device instead of 2" in text


def test_a_value_in_the_wrong_case_and_a_cordoned_node_while_the_other_one_is_full() -> None:
    wrong = claim("two", selector=f'device.attributes["{DRIVER}"].model == "A100"')
    text = message(
        node("a"), gpus("a", 1), node("b", unschedulable=True), gpus("b", 1), device_class(), held_on("a"), wrong,
        pod("p", "two"),
    )  # fmt: skip
    assert 'to make it fit on b: request model "a100", and uncordon b' in text
