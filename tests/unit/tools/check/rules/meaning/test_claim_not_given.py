"""M405 and M406: missing claims and templates, and those in another namespace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from allotment.explanation import explain
from allotment.model.editing.tree_edits import apply_edits
from allotment.model.meta import Object
from allotment.tools.check.rules.meaning import claim_not_given, other_namespace
from tests.manifest_changes import apply_change
from tests.unit.tools.check.bundles import bundle_of
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

CORPUS = Path(__file__).parents[5] / "corpus"
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


def test_the_other_kind_in_the_pods_namespace_precedes_a_namesake_elsewhere() -> None:
    texts = (template(namespace="w11"), claim(namespace="w01"), pod(namespace="w11", resourceClaims=by_claim()))
    (match,) = matches_of(RULE, *texts)
    assert "w01" not in f"{match.message} {match.help}"
    assert matches_of(OTHER, *texts) == []
    assert fixed_documents(RULE, *texts)[2]["spec"]["resourceClaims"] == by_template()


def test_a_similar_name_in_the_pods_namespace_precedes_a_namesake_elsewhere() -> None:
    texts = (
        template(name="single-gpu", namespace="w11"),
        template(name="singel-gpu", namespace="w01"),
        pod(namespace="w11", resourceClaims=by_template("singel-gpu")),
    )
    assert matches_of(OTHER, *texts) == []
    assert fixed_documents(RULE, *texts)[2]["spec"]["resourceClaims"] == by_template("single-gpu")


def test_objects_of_the_cluster_are_suggested_too() -> None:
    (match,) = matches_of(RULE, pod(namespace="w11"), cluster=claim(namespace="w11") + "---\n" + NODE)
    assert match.fix is not None
    assert match.fix.text == "reference it with resourceClaimName"


@pytest.mark.parametrize(
    "name",
    [
        "claim-missing", "claim-used-in-other-namespace", "namesake-in-other-namespace", "similar-name-and-namesake",
        "template-in-other-namespace", "template-missing",
    ],
)  # fmt: skip
def test_the_fix_is_the_first_change_that_explain_suggests(name: str) -> None:
    text = (CORPUS / f"{name}.yaml").read_text()
    bundle = bundle_of(text)
    values = [manifest.value for manifest in bundle.manifests.values() if isinstance(manifest.value, Object)]
    reasons = explain(values, bundle.features).answers[0].reasons
    assert reasons is not None
    explained = [document.tree for document in bundle_of(text).documents]
    for change in reasons.headline.changes:
        assert apply_change(explained, change)
    edits = [
        edit for rule in (RULE, OTHER) for match in rule.find(bundle) for edit in (match.fix.edits if match.fix else ())
    ]
    fixed = [apply_edits(d.tree, [edit for document, edit in edits if document is d]) for d in bundle.documents]
    assert fixed == explained
    assert bool(edits) == (name not in ("claim-missing", "claim-used-in-other-namespace"))


def test_a_claim_that_is_in_use_is_not_moved() -> None:
    in_use = json.dumps(
        {
            **yaml.safe_load(claim(namespace="there")),
            "status": {"reservedFor": [{"resource": "pods", "name": "solver", "uid": "u"}]},
        }
    )
    texts = (claim(namespace="there"), pod(namespace="here", resourceClaims=by_claim()))
    assert [match.fix is None for match in matches_of(OTHER, *texts)] == [False]
    assert [match.fix is None for match in matches_of(OTHER, *texts, cluster=in_use)] == [True]


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
