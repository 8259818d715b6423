"""The diagnosis cache: equal claims are diagnosed once, with the names of each claim in the result."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import Diagnosis
from allotment.explanation import Explanation, explain
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim

CLUSTER = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-gpus}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
"""
CLAIM = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  devices:
    requests:
    - name: gpus
      exactly: {{deviceClassName: gpu, count: {count}}}
"""


def explained(*claims: tuple[str, str, int], tries: int | None = None) -> Explanation:
    text = CLUSTER + "".join(CLAIM.format(namespace=ns, name=name, count=count) for ns, name, count in claims)
    decoded = decode_all(load_text(text).documents)
    values = [manifest.value for manifest in decoded.manifests if isinstance(manifest.value, Object)]
    return explain(values, Features(kube="1.36"), tries)


def test_equal_claims_are_diagnosed_once_with_their_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    diagnose = Diagnoser.diagnose

    def counting(
        self: Diagnoser, claims: Sequence[ResourceClaim], nodes: Sequence[str] | None, reader: Reader
    ) -> Diagnosis:
        nonlocal calls
        calls += 1
        return diagnose(self, claims, nodes, reader)

    monkeypatch.setattr(Diagnoser, "diagnose", counting)
    first, second, third = explained(("a", "big", 3), ("b", "large", 3), ("b", "huge", 4)).answers
    assert calls == 2
    assert first.reasons is not None
    assert second.reasons is not None
    assert third.reasons is not None
    assert (first.reasons.headline.claim, second.reasons.headline.claim) == ("a/big", "b/large")
    assert second.reasons.headline.changes[0].object == "ResourceClaim b/large"
    assert str(second.reasons).replace("b/large", "a/big") == str(first.reasons)
    assert third.reasons != second.reasons


def test_reasons_have_no_changes_after_the_trial_limit() -> None:
    claims = ("a", "one", 3), ("a", "two", 4)
    free = [answer.reasons for answer in explained(*claims).answers]
    bound = [answer.reasons for answer in explained(*claims, tries=0).answers]
    assert all(reasons is not None and reasons.headline.changes for reasons in free)
    assert all(reasons is not None and reasons.headline.changes == () for reasons in bound)
    assert [reasons and reasons.headline.summary for reasons in free] == [
        reasons and reasons.headline.summary for reasons in bound
    ]
