"""M414 and M415: constraints with two attributes, and tolerations that do not prevent eviction."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import match_and_distinct, toleration_evicted
from tests.unit.tools.check.rules.meaning.manifests import (
    claim,
    fixed_documents,
    gpu_request,
    levels_and_paths,
    matches_of,
)

BOTH, TOLERATION = match_and_distinct.RULE, toleration_evicted.RULE

MATCH = {"matchAttribute": "gpu.nvidia.com/productName"}
DISTINCT = {"distinctAttribute": "resource.kubernetes.io/pcieRoot"}


def test_constraint_is_split_into_two() -> None:
    text = claim(gpu_request(count=2), constraints=[{"requests": ["gpu"], **MATCH, **DISTINCT}])
    assert levels_and_paths(BOTH, text) == [("error", "ResourceClaim spec.devices.constraints[0].distinctAttribute")]
    (tree,) = fixed_documents(BOTH, text)
    assert tree["spec"]["devices"]["constraints"] == [{"requests": ["gpu"], **MATCH}, {"requests": ["gpu"], **DISTINCT}]
    assert levels_and_paths(BOTH, claim(gpu_request(count=2), constraints=[MATCH, DISTINCT])) == []


def test_same_attribute_in_both_has_no_fix() -> None:
    both = {**MATCH, "distinctAttribute": MATCH["matchAttribute"]}
    (match,) = matches_of(BOTH, claim(gpu_request(count=2), constraints=[both]))
    assert match.fix is None


def test_toleration_without_effect() -> None:
    toleration = {"key": "gpu.nvidia.com/xid", "operator": "Exists"}
    text = claim(gpu_request(tolerations=[toleration]))
    assert levels_and_paths(TOLERATION, text) == [
        ("warning", "ResourceClaim spec.devices.requests[0].exactly.tolerations[0]")
    ]
    (tree,) = fixed_documents(TOLERATION, text)
    assert tree["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] == [
        {**toleration, "effect": "NoSchedule"},
        {**toleration, "effect": "NoExecute"},
    ]


def test_other_toleration_prevents_eviction() -> None:
    toleration = {"key": "gpu.nvidia.com/xid", "operator": "Exists"}
    assert levels_and_paths(TOLERATION, claim(gpu_request(tolerations=[{**toleration, "effect": "NoSchedule"}]))) == []
    assert (
        levels_and_paths(
            TOLERATION, claim(gpu_request(tolerations=[toleration, {**toleration, "effect": "NoExecute"}]))
        )
        == []
    )
