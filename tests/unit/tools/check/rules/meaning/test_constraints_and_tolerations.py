"""Constraints of which half is ignored, and tolerations that do not keep a pod."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import match_and_distinct, toleration_evicted
from tests.unit.tools.check.rules.meaning.manifests import asking, claim, found, mended, told

BOTH, TOLERATION = match_and_distinct.RULE, toleration_evicted.RULE

MATCH = {"matchAttribute": "gpu.nvidia.com/productName"}
DISTINCT = {"distinctAttribute": "resource.kubernetes.io/pcieRoot"}


def test_two_constraints_do_what_one_does_not() -> None:
    text = claim(asking(count=2), constraints=[{"requests": ["gpu"], **MATCH, **DISTINCT}])
    assert told(BOTH, text) == [("error", "ResourceClaim spec.devices.constraints[0].distinctAttribute")]
    (tree,) = mended(BOTH, text)
    assert tree["spec"]["devices"]["constraints"] == [{"requests": ["gpu"], **MATCH}, {"requests": ["gpu"], **DISTINCT}]
    assert told(BOTH, claim(asking(count=2), constraints=[MATCH, DISTINCT])) == []


def test_equal_and_different_cannot_be_meant() -> None:
    both = {**MATCH, "distinctAttribute": MATCH["matchAttribute"]}
    (one,) = found(BOTH, claim(asking(count=2), constraints=[both]))
    assert one.fix is None


def test_a_toleration_without_effect() -> None:
    toleration = {"key": "gpu.nvidia.com/xid", "operator": "Exists"}
    text = claim(asking(tolerations=[toleration]))
    assert told(TOLERATION, text) == [("warning", "ResourceClaim spec.devices.requests[0].exactly.tolerations[0]")]
    (tree,) = mended(TOLERATION, text)
    assert tree["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] == [
        {**toleration, "effect": "NoSchedule"},
        {**toleration, "effect": "NoExecute"},
    ]


def test_one_for_each_effect_is_enough() -> None:
    toleration = {"key": "gpu.nvidia.com/xid", "operator": "Exists"}
    assert told(TOLERATION, claim(asking(tolerations=[{**toleration, "effect": "NoSchedule"}]))) == []
    assert told(TOLERATION, claim(asking(tolerations=[toleration, {**toleration, "effect": "NoExecute"}]))) == []
