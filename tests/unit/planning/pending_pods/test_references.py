"""Pods whose claims are missing are not planned, for the reason that ``explain`` gives."""

from __future__ import annotations

from allotment.engine.refusal import Diagnosis
from allotment.explanation.input import sort_objects
from allotment.model.decoding import decode_all
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.planning.pending_pods.pod_claims import claims_of
from tests.unit.explanation.test_explain import FEATURES, TEMPLATE, claim, pod


def reason(*documents: str) -> tuple[str, str]:
    """Code and summary for the pod ``p``."""
    decoded = decode_all(load_text("---".join((*documents, pod("p", "resourceClaimName: one")))).documents)
    assert not decoded.problems
    objects = sort_objects([m.value for m in decoded.manifests if isinstance(m.value, Object)], FEATURES)
    found = claims_of(objects.pods[-1], "", objects, objects.claims, objects.classes)
    assert isinstance(found, Diagnosis)
    return found.headline.code, found.headline.summary


def test_the_other_kind_in_the_pods_namespace_precedes_a_namesake_elsewhere() -> None:
    code, summary = reason(TEMPLATE, claim("one").replace("namespace: ns", "namespace: w01"))
    assert code == "claim-missing"
    assert 'a ResourceClaimTemplate "one" exists: refer to it with resourceClaimTemplateName' in summary
    assert "w01" not in summary


def test_a_claim_of_another_namespace() -> None:
    code, summary = reason(claim("one").replace("namespace: ns", "namespace: w01"))
    assert code == "wrong-namespace"
    assert "is in namespace w01, but the pod is in ns" in summary
