"""Two reasons of a pending pod differ in the cause, its object, or the first remedy; all else may change."""

from __future__ import annotations

from allotment.engine.refusal import AllocationRefusal, Diagnosis, SuggestedChange
from allotment.explanation.cause_key import CauseKey, cause_key

CLAIM = "ResourceClaimTemplate ns/big"


def key(code: str, summary: str = "", *changes: SuggestedChange, claim: str = "ns/c", request: str = "gpu") -> CauseKey:
    refused = AllocationRefusal(code=code, summary=summary, claim=claim, request=request, changes=changes)
    return cause_key(Diagnosis(headline=refused))


def wait(pod: str) -> SuggestedChange:
    claim = f"ResourceClaim ns/{pod}"
    return SuggestedChange(f"wait for pod {pod} to finish", claim, "status.allocation", remedy="wait")


def less(count: int, node: str) -> SuggestedChange:
    path = "spec.spec.devices.requests[0].exactly"
    return SuggestedChange(f"request {count} devices", CLAIM, path, {"count": count}, node, "less")


def uncordon(node: str) -> SuggestedChange:
    return SuggestedChange(f"uncordon {node}", f"Node {node}", "spec.unschedulable", None, node, "uncordon")


def other_value(value: str) -> SuggestedChange:
    text, expression = f"use {value}", f"device.attributes['d'].productName == '{value}'"
    return SuggestedChange(text, CLAIM, "selectors[0].cel.expression", expression, "n", "other-value")


def test_counts_nodes_and_users_of_devices_do_not_make_another_reason() -> None:
    few = key("too-few-devices", "9 requested; at most 2 are on a node", less(2, "alpha"))
    assert few == key("too-few-devices", "9 requested; at most 4 are on a node", less(4, "beta"))
    busy = key("devices-in-use", "every matching device is in use by claim ns/a (pod a)", wait("a"))
    assert busy == key("devices-in-use", "every matching device is in use by claim ns/b (pod b)", wait("b"))
    cordoned = key("node-not-eligible", "alpha, which has the devices, is cordoned", uncordon("alpha"))
    assert cordoned == key("node-not-eligible", "beta, which has the devices, is cordoned", uncordon("beta"))


def test_another_request_or_object_makes_another_reason() -> None:
    assert key("too-few-devices", request="gpu") != key("too-few-devices", request="nic")
    assert key("too-few-devices", claim="ns/a") != key("too-few-devices", claim="ns/b")
    assert key("class-missing", 'DeviceClass "a" does not exist') != key("class-missing", 'DeviceClass "b" does not')
    assert key("invalid-manifest", "spec.a: Required value") != key("invalid-manifest", "spec.b: Required value")


def test_another_remedy_makes_another_reason() -> None:
    waiting = key("devices-in-use", "", wait("a"))
    assert waiting != key("devices-in-use", "", less(2, "n"))
    assert waiting != key("node-not-eligible", "", uncordon("n"))
    assert key("selector-matches-nothing", "", other_value("A100-40GB")) != key(
        "selector-matches-nothing", "", other_value("A100-80GB")
    )


def test_the_names_of_a_gangs_refused_pod_do_not_matter() -> None:
    assert key("gang-incomplete", "2 of 4 fit", claim="ns/p3-x") == key("gang-incomplete", "3 of 4", claim="ns/p1-y")


def test_equivalent_pods_have_the_key_of_their_own_claims() -> None:
    change = SuggestedChange("request 1", "ResourceClaim ns/a", "spec.x", {"count": 1}, "n", "less")
    renamed = key("too-few-devices", "", change, claim="ns/a").renamed({"ns/a": "ns/b"})
    own = SuggestedChange("request 1", "ResourceClaim ns/b", "spec.x", {"count": 1}, "n", "less")
    assert renamed == key("too-few-devices", "", own, claim="ns/b")


def test_a_digest_is_the_same_in_all_processes() -> None:
    first, second = key("too-few-devices", "", less(2, "a")), key("too-few-devices", "", less(3, "b"))
    assert first.digest() == second.digest()
    assert first.digest() != key("devices-in-use").digest()
    assert CauseKey("devices-in-use").digest() == "48701b03f721d5e6"
