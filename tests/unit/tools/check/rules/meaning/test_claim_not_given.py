"""M405 and M406: missing claims and templates, and those in another namespace."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import claim_not_given, other_namespace
from tests.unit.tools.check.rules.meaning.manifests import (
    by_claim,
    by_template,
    claim,
    fixed_documents,
    matches_of,
    pod,
    template,
)
from tests.unit.tools.check.rules.meaning.manifests import levels_and_paths as findings_of

RULE, OTHER = claim_not_given.RULE, other_namespace.RULE

TEMPLATE = "Pod spec.resourceClaims[0].resourceClaimTemplateName"
NODE = "apiVersion: v1\nkind: Pod\nmetadata: {name: other, namespace: default}\nspec: {containers: [{name: a}]}\n"


def levels_and_paths_of_both(*texts: str, **settings: str) -> list[tuple[str, str]]:
    """Level and location of the matches of both rules."""
    return [*findings_of(RULE, *texts, **settings), *findings_of(OTHER, *texts, **settings)]


def test_note_without_a_cluster() -> None:
    assert levels_and_paths_of_both(pod()) == [("note", TEMPLATE)]
    assert levels_and_paths_of_both(pod(), fleet="t4") == [("note", TEMPLATE)]
    assert levels_and_paths_of_both(pod(), template()) == []


def test_error_if_missing_in_the_cluster() -> None:
    assert levels_and_paths_of_both(pod(), cluster=NODE) == [("error", TEMPLATE)]
    assert levels_and_paths_of_both(pod(), cluster=template(namespace="default")) == []
    # A snapshot of only nodes and slices does not include claims.
    assert levels_and_paths_of_both(pod(), cluster="apiVersion: v1\nkind: Node\nmetadata: {name: a}\n") == [
        ("note", TEMPLATE)
    ]


def test_similar_name_is_suggested() -> None:
    texts = (template(name="single-gpu"), pod(resourceClaims=by_template("singel-gpu")))
    assert levels_and_paths_of_both(*texts) == [("warning", TEMPLATE)]
    assert fixed_documents(RULE, *texts)[1]["spec"]["resourceClaims"] == by_template("single-gpu")


def test_claim_referenced_as_template() -> None:
    texts = (claim(), pod())
    assert levels_and_paths_of_both(*texts) == [("warning", TEMPLATE)]
    assert fixed_documents(RULE, *texts)[1]["spec"]["resourceClaims"] == by_claim()
    old = [{"name": "gpu", "source": {"resourceClaimTemplateName": "gpu"}}]
    tree = fixed_documents(RULE, claim(), pod(resourceClaims=old))[1]
    assert tree["spec"]["resourceClaims"] == [{"name": "gpu", "source": {"resourceClaimName": "gpu"}}]


def test_fragments_are_checked() -> None:
    assert levels_and_paths_of_both("resourceClaims:\n- name: gpu\n  resourceClaimName: pair\n") == [
        ("note", "resourceClaims[0].resourceClaimName")
    ]


def test_templates_of_compute_domains_exist() -> None:
    domain = """\
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: domain}
spec: {numNodes: 1, channel: {resourceClaimTemplate: {name: gpu}}}
"""
    assert levels_and_paths_of_both(domain, pod()) == []


# --- other namespaces ------------------------------------------------------------------------------------------------


def test_object_in_another_namespace() -> None:
    texts = (template(namespace="there"), pod(namespace="here"))
    assert levels_and_paths_of_both(*texts) == [("error", TEMPLATE)]
    moved, _ = fixed_documents(OTHER, *texts)
    assert moved["metadata"] == {"name": "gpu", "namespace": "here"}


def test_pod_without_namespace_moves_to_its_claim() -> None:
    texts = (template(namespace="there"), pod())
    assert levels_and_paths_of_both(*texts) == [("warning", TEMPLATE)]
    _, moved = fixed_documents(OTHER, *texts)
    assert moved["metadata"]["namespace"] == "there"


def test_claim_without_namespace_moves_to_its_pod() -> None:
    texts = (template(), pod(namespace="here"))
    assert levels_and_paths_of_both(*texts) == [("warning", TEMPLATE)]
    moved, _ = fixed_documents(OTHER, *texts)
    assert moved["metadata"]["namespace"] == "here"


@pytest.mark.parametrize("other", ["there", "elsewhere"])
def test_objects_with_other_users_are_not_moved(other: str) -> None:
    matches = matches_of(OTHER, template(namespace="there"), pod(namespace="here"), pod(namespace=other, name="second"))
    assert [match.fix for match in matches] == [None] * len(matches)
    assert matches


def test_object_in_another_namespace_of_the_cluster() -> None:
    assert levels_and_paths_of_both(pod(namespace="here"), cluster=template(namespace="there")) == [("error", TEMPLATE)]
    (match,) = matches_of(OTHER, pod(namespace="here"), cluster=template(namespace="there"))
    assert match.fix is None
