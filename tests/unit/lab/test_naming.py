"""Resources by the names that users write."""

from __future__ import annotations

import pytest

from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.cluster.resources import DEPLOYMENTS, PODS
from allotment.lab.kinds import UnknownKind, by_object, by_type, by_word
from allotment.model.features import Features

KINDS = built_in_kinds(Features(kube="1.36"))


@pytest.mark.parametrize("word", ["pod", "pods", "po", "Pod"])
def test_pods_have_several_names(word: str) -> None:
    assert by_word(KINDS, word) == PODS


def test_a_resource_name_may_have_a_group() -> None:
    assert by_word(KINDS, "deployments.apps") == DEPLOYMENTS
    assert by_word(KINDS, "deploy") == DEPLOYMENTS


def test_types_name_a_version() -> None:
    assert by_type(KINDS, "apps/v1", "Deployment") == DEPLOYMENTS
    assert by_type(KINDS, "v1", "Pod") == PODS


def test_misspelt_words_get_a_suggestion() -> None:
    with pytest.raises(UnknownKind, match=r"did you mean 'deployment'"):
        by_word(KINDS, "deploymnet")
    with pytest.raises(UnknownKind, match="did you mean 'StatefulSet'"):
        by_type(KINDS, "apps/v1", "StateflSet")
    with pytest.raises(UnknownKind, match="Deployment of extensions/v1beta1"):
        by_type(KINDS, "extensions/v1beta1", "Deployment")


def test_an_object_without_a_type_is_described() -> None:
    assert by_object(KINDS, {"apiVersion": "v1", "kind": "Pod"}) == PODS
    with pytest.raises(UnknownKind, match=r"^Pod: apiVersion is missing$"):
        by_object(KINDS, {"kind": "Pod"})
    with pytest.raises(UnknownKind, match=r"^kind is missing$"):
        by_object(KINDS, {"apiVersion": "v1"})
