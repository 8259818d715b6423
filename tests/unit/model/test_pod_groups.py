"""Owners and consumers of claims of pods with a PodGroup."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model import pod_groups
from allotment.model.trees import Tree

GROUP: Tree = {
    "metadata": {"name": "g", "uid": "uid-g"},
    "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "nic", "resourceClaimName": "c"}]
    },
}


@pytest.mark.parametrize(
    ("entry", "shared"),
    [
        ({"name": "gpu", "resourceClaimTemplateName": "t"}, True),
        ({"name": "nic", "resourceClaimName": "c"}, True),
        ({"name": "gpu", "resourceClaimTemplateName": "u"}, False),
        ({"name": "gpu", "resourceClaimName": "t"}, False),
        ({"name": "mine", "resourceClaimTemplateName": "t"}, False),
    ],
)
def test_entry_is_shared_with_the_group_if_it_is_equal(entry: Tree, shared: bool) -> None:
    assert pod_groups.has_claim_entry(GROUP, entry) is shared


def owned(**owner: Any) -> Tree:
    full = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "controller": True, **owner}
    return {"metadata": {"ownerReferences": [full]}}


def test_owning_group_in_any_api_version() -> None:
    assert (
        pod_groups.owning_group(owned())
        == pod_groups.owning_group(owned(apiVersion="scheduling.k8s.io/v1beta1"))
        == "g"
    )
    others = [owned(kind="Pod", apiVersion="v1"), owned(apiVersion="example.com/v1"), owned(controller=False)]
    assert [pod_groups.owning_group(tree) for tree in others] == [""] * 3
    assert pod_groups.owning_group({"metadata": {}}) == ""


NAMES = st.sampled_from(["a", "b", "g"])
USERS = st.lists(
    st.one_of(
        st.builds(lambda name: {"resource": "pods", "name": name, "uid": f"pod-{name}"}, NAMES),
        st.builds(
            lambda name: pod_groups.consumer_reference({"metadata": {"name": name, "uid": f"group-{name}"}}), NAMES
        ),
    )
)


@given(users=USERS, pod=NAMES, group=st.one_of(st.just(""), NAMES))
def test_pod_is_a_consumer_itself_or_through_its_group(users: list[Tree], pod: str, group: str) -> None:
    itself = any(user["uid"] == f"pod-{pod}" for user in users)
    by_group = bool(group) and any(user["uid"] == f"group-{group}" for user in users)
    assert pod_groups.is_consumer(users, f"pod-{pod}", group) is (itself or by_group)


def test_pod_with_the_name_of_a_group_is_not_a_group() -> None:
    assert not pod_groups.is_consumer([{"resource": "pods", "name": "g", "uid": "u"}], "other", "g")


def test_not_owner_message_has_the_expected_owners() -> None:
    assert pod_groups.not_owner_message("ns/c", "ns/p") == (
        "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)"
    )
    assert pod_groups.not_owner_message("ns/c", "ns/p", "g").endswith("(neither Pod nor PodGroup g is the owner)")
