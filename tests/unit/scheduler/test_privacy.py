"""What pods of one tenant show names no claims and pods of other tenants, and only changes that were verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIM_TEMPLATES
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.world import DRIVER, NAMESPACE, claim, device_class, gpus, node, pod, world

Object = tuple[Resource, Tree]
CLUSTER: tuple[Object, ...] = (node("n1"), gpus("n1", 2), device_class())


def in_namespace(given: Object, namespace: str) -> Object:
    """The object in another namespace."""
    resource, tree = given
    return resource, {**tree, "metadata": {**tree["metadata"], "namespace": namespace}}


def held(name: str, device: int, namespace: str = "secret-team") -> Object:
    """A claim that a pod of a tenant holds."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": f"gpu-{device}"}
    user = {"resource": "pods", "name": f"secret-pod-{device}", "uid": f"u-{device}"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    return in_namespace(claim(name, status=status), namespace)


def template(name: str, count: int = 1) -> Object:
    _, tree = claim("spec-only", count=count)
    return CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"spec": tree["spec"]}}


def messages(*objects: Object, name: str = "p", reason: str = "") -> list[str]:
    """The events of the pod, and with a ``reason`` the message of its condition."""

    async def shown() -> list[str]:
        async with world(*CLUSTER, *objects) as lab:
            condition = [await lab.reported_message(name, reason)] if reason else []
            await lab.until(lambda: lab.events("FailedScheduling"))
            return [*lab.events("FailedScheduling"), *condition]

    return idle.run(shown())


def test_holders_in_other_namespaces_are_counted() -> None:
    found = messages(
        held("secret-claim", 0), held("other-secret", 1), claim("mine"), pod("p", "mine"), reason="Unschedulable"
    )
    for text in found:
        assert "secret" not in text
        assert "in use by 2 claims of other namespaces (devices-in-use)" in text
        assert "to make it fit on n1: wait for 1 claim of another namespace to be released" in text


def test_pods_of_two_tenants_with_equal_claims_get_their_own_reasons() -> None:
    """They are scheduled as one group of equivalent pods, but the text depends on the tenant."""
    generated: Sequence[tuple[str, str]] = (("p", NAMESPACE), ("q", "secret-team"))
    objects: list[Object] = [held("secret-claim", 0), held("other-secret", 1)]
    for name, namespace in generated:
        owner = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}]
        entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
        status: dict[str, Any] = {
            "phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
        }  # fmt: skip
        resource, tree = pod(name, resourceClaims=[entry], status=status)
        tree["metadata"]["uid"] = f"uid-{name}"
        objects.append(in_namespace((resource, tree), namespace))
        objects.append(in_namespace(claim(f"{name}-gpu", ownerReferences=owner), namespace))

    async def scenario() -> None:
        async with world(*CLUSTER, *objects) as lab:
            await lab.until(lambda: len(lab.events("FailedScheduling")) == 2)
            theirs, own = sorted(lab.events("FailedScheduling"), key=lambda text: "2 claims of other" in text)
            assert "in use by 2 claims of other namespaces" in own
            assert "secret" not in own
            assert "in use by claim secret-team/secret-claim (pod secret-pod-0)" in theirs
            assert "claim secret-team/q-gpu, request gpu" in theirs
            assert "ns/p" not in theirs

    idle.run(scenario())


def test_the_event_about_a_missing_claim_has_a_verified_change() -> None:
    found = messages(held("big", 0), template("big"), pod("p", "big"))
    for text in found:
        assert 'a ResourceClaimTemplate "big" exists: refer to it with resourceClaimTemplateName' in text
        assert "to make it fit on n1: refer to it with resourceClaimTemplateName" in text
        assert "[{name: c0, resourceClaimTemplateName: big}]" in text
        assert "secret" not in text


@pytest.mark.parametrize(
    ("objects", "further"),
    [
        ([template("big", count=3)], "request 2 devices instead of 3"),
        ([held("x", 0), held("z", 1), template("big")], "wait for 1 claim of another namespace to be released"),
    ],
)
def test_a_change_that_would_not_help_alone_is_in_the_event_with_the_other_one(
    objects: list[Object], further: str
) -> None:
    """With too many devices, and while all devices are in use."""
    for text in messages(*objects, pod("p", "big")):
        assert f"to make it fit on n1: refer to it with resourceClaimTemplateName, and {further}" in text
        assert "secret" not in text


def test_a_namesake_in_another_namespace_is_not_mentioned() -> None:
    for text in messages(in_namespace(claim("big"), "secret-team"), pod("p", "big")):
        assert text.startswith(f'ResourceClaim "big" does not exist in namespace {NAMESPACE} (claim-missing)')
        assert "secret" not in text
