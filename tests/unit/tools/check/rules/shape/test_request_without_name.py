"""S105: requests without a valid name, and the names that the fix gives them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.model.validation.names import label_problems
from allotment.tools.check.rules.meaning import no_such_request
from allotment.tools.check.rules.shape import refused, request_without_name
from tests.unit.tools.check.rules.shape.rule_results import (
    claim,
    devices_of,
    fixed_documents,
    levels_and_messages,
    matches_of,
)

RULE = request_without_name.RULE


def fixed_names(text: str) -> list[str]:
    return [request["name"] for request in devices_of(fixed_documents(RULE, text)[0])["requests"]]


def nameless_request(name: str) -> str:
    return f"- exactly: {{deviceClassName: {name}}}"


def test_name_from_the_class() -> None:
    assert fixed_names(claim(nameless_request("mig.nvidia.com"))) == ["mig"]
    assert fixed_names(claim(nameless_request("my-fine-class"))) == ["gpu"]
    (match,) = matches_of(RULE, claim(nameless_request("mig.nvidia.com")))
    assert match.fix is not None
    assert match.fix.safe


def test_name_is_the_first_field() -> None:
    (request,) = devices_of(fixed_documents(RULE, claim(nameless_request("gpu.nvidia.com")))[0])["requests"]
    assert list(request) == ["name", "exactly"]


def test_several_names_are_numbered() -> None:
    named = "- name: gpu-1\n  exactly: {deviceClassName: a}"
    requests = "\n".join([nameless_request("gpu.nvidia.com"), named, nameless_request("x")])
    assert fixed_names(claim(requests)) == ["gpu-2", "gpu-1", "gpu-3"]


def test_undefined_name_of_a_constraint_is_used() -> None:
    rest = '    constraints:\n    - requests: ["big"]\n      matchAttribute: gpu.nvidia.com/parentUUID\n'
    assert fixed_names(claim(nameless_request("mig.nvidia.com"), devices_extra=rest)) == ["big"]


def test_alternatives_need_names() -> None:
    text = claim("- name: gpu\n  firstAvailable:\n  - deviceClassName: a\n  - deviceClassName: b")
    assert [message for _, message in levels_and_messages(RULE, text)] == [
        "an alternative of a request needs a name"
    ] * 2
    (request,) = devices_of(fixed_documents(RULE, text)[0])["requests"]
    assert [alternative["name"] for alternative in request["firstAvailable"]] == ["gpu-1", "gpu-2"]


def test_invalid_name_is_fixed_in_all_references() -> None:
    rest = """\
    constraints:
    - requests: [myGPU.0, ok]
      matchAttribute: gpu.nvidia.com/parentUUID
"""
    pod = """\
---
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  resourceClaims: [{name: a, resourceClaimName: gpu}]
  containers:
  - name: app
    resources: {claims: [{name: a, request: myGPU.0}]}
"""
    text = claim(
        "- name: myGPU.0\n  exactly: {deviceClassName: a}\n- name: ok\n  exactly: {deviceClassName: a}",
        devices_extra=rest,
    )
    (match,) = matches_of(RULE, text + pod)
    assert match.message == "\"myGPU.0\" is not a valid request name: use lower-case letters, digits and '-'"
    assert match.fix is not None
    assert not match.fix.safe
    fixed_claim, fixed_pod = fixed_documents(RULE, text + pod)
    assert [request["name"] for request in devices_of(fixed_claim)["requests"]] == ["my-gpu-0", "ok"]
    assert devices_of(fixed_claim)["constraints"][0]["requests"] == ["my-gpu-0", "ok"]
    assert fixed_pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "a", "request": "my-gpu-0"}]


def test_server_error_is_not_repeated() -> None:
    assert matches_of(refused.RULE, claim(nameless_request("a"))) == []
    assert matches_of(refused.RULE, claim("- name: A\n  exactly: {deviceClassName: a}")) == []


@given(st.lists(st.text(st.sampled_from("aB0-._/ é"), max_size=70), min_size=1, max_size=4))
def test_every_name_can_be_fixed(written: list[str]) -> None:
    items = "\n".join(f"- name: {name!r}\n  exactly: {{deviceClassName: gpu.x}}" for name in dict.fromkeys(written))
    names = fixed_names(claim(items))
    assert not any(label_problems(name) for name in names)
    assert len(set(names)) == len(names)


def test_several_undefined_names_are_assigned_in_order() -> None:
    rest = "    constraints:\n    - requests: [gpu-0, gpu-1]\n      matchAttribute: gpu.amd.com/parentDeviceID\n"
    text = claim(f"{nameless_request('gpu.amd.com')}\n{nameless_request('gpu.amd.com')}", devices_extra=rest)
    assert fixed_names(text) == ["gpu-0", "gpu-1"]
    assert [match.fix.safe for match in matches_of(RULE, text) if match.fix] == [
        False,
        False,
    ]  # the assignment is a guess


def test_generated_name_avoids_referenced_names() -> None:
    rest = "    constraints:\n    - requests: [gpu-1]\n      matchAttribute: a.example.com/b\n"
    assert fixed_names(claim(f"{nameless_request('x')}\n{nameless_request('x')}", devices_extra=rest)) == [
        "gpu-2",
        "gpu-3",
    ]


def test_an_invalid_name_becomes_the_name_that_a_constraint_has() -> None:
    """Only the request is wrong then, so its constraint has no other finding."""
    rest = "    constraints:\n    - {requests: [gpu-a], matchAttribute: gpu.nvidia.com/productName}\n"
    text = claim("- name: gpu_a\n  exactly: {deviceClassName: gpu.nvidia.com}", devices_extra=rest)
    assert fixed_names(text) == ["gpu-a"]
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert match.fix.safe
    assert matches_of(no_such_request.RULE, text) == []
