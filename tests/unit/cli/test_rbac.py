"""``allot rbac``: manifests that a cluster accepts, and missing permissions."""

from __future__ import annotations

import json
import re

import pytest

import allotment
from allotment.model.loading import load_text
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import manifests
from tests.unit.cli.conftest import Allot


@pytest.mark.parametrize("name", COMPONENTS)
def test_output_matches_the_table(allot: Allot, name: str) -> None:
    ran = allot("rbac", name, "--namespace", "gpu", "--service-account", "me")
    assert (ran.code, ran.err) == (0, "")
    printed = [document.tree for document in load_text(ran.out).documents]
    wanted = manifests(COMPONENTS[name], namespace="gpu", account="me")
    assert printed[: len(wanted)] == wanted
    listed = json.loads(allot("rbac", name, "-n", "gpu", "--service-account", "me", "-o", "json").out)
    assert (listed["kind"], listed["items"]) == ("List", printed)


def test_reader_is_the_default_component(allot: Allot) -> None:
    assert allot("rbac").out == allot("rbac", "reader").out


def test_every_rule_has_its_reason_above(allot: Allot) -> None:
    lines = allot("rbac", "taints").out.splitlines()
    assert lines[lines.index("# Eviction progress in the status of rules.") + 4] == "  - devicetaintrules/status"
    assert max(map(len, lines)) <= 100


def test_objects_of_several_components_are_printed_once(allot: Allot) -> None:
    trees = [
        document.tree
        for document in load_text(allot("rbac", "claims", "taints", "--service-account", "a").out).documents
    ]
    names = [(tree["kind"], tree["metadata"]["name"]) for tree in trees]
    assert len(names) == len(set(names)) == 9
    assert names.count(("ServiceAccount", "a")) == 1


def test_a_driver_comes_with_the_policy_for_its_node(allot: Allot) -> None:
    kinds = [document.tree["kind"] for document in load_text(allot("rbac", "driver").out).documents]
    assert kinds[-2:] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]


def test_driver_role_is_restricted_to_its_name(allot: Allot) -> None:
    items = json.loads(allot("rbac", "driver", "--driver", "gpu.example.com", "-o", "json").out)["items"]
    (role,) = (tree for tree in items if tree["kind"] == "ClusterRole")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [["gpu.example.com"]]


def test_components_are_listed(allot: Allot) -> None:
    assert [row["name"] for row in json.loads(allot("rbac", "--list", "-o", "json").out)] == list(COMPONENTS)
    assert allot("rbac", "--list").out.splitlines()[1].startswith("reader ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("skeduler",), "unknown component 'skeduler'\n  did you mean scheduler?\n"),
        (("--as", "me"), "--as: requires --check\n  manifests are for a service account: use --service-account NAME\n"),
    ],
)
def test_invalid_values_are_rejected(allot: Allot, words: tuple[str, ...], expected: str) -> None:
    ran = allot("rbac", *words)
    assert (ran.code, ran.err) == (2, f"allot: error: {expected}")


def test_an_administrator_lacks_nothing(live: Allot) -> None:
    ran = live("rbac", "reader", "scheduler", "--check")
    assert ran.code == 0
    assert [line.split(" has all ")[0] for line in ran.out.splitlines()] == [
        "reader: allotment-admin", "scheduler: allotment-admin"
    ]  # fmt: skip


def test_missing_permissions_are_listed(live: Allot, lab: allotment.Lab) -> None:
    part = COMPONENTS["taints"]
    given = manifests(part._replace(name="taints-tried", cluster_wide=part.cluster_wide[1:]), account="tried")
    lab.apply(given)
    ran = live("rbac", "taints", "--check", "--service-account", "tried", "-n", "kube-system")
    assert ran.code == 1
    first, _, header, missing, _, last = ran.out.splitlines()
    assert first.startswith("taints: system:serviceaccount:kube-system:tried lacks 2 of ")
    assert re.split(" {3,}", header) == ["MISSING", "RESOURCE"]
    assert re.split(" {3,}", missing) == ["list,watch", "pods"]
    assert last == "To create an account with these permissions: allot rbac taints | kubectl apply -f -"
    data = json.loads(
        live("rbac", "taints", "--check", "--service-account", "tried", "-n", "kube-system", "-o", "json").out
    )
    (found,) = data["parts"]
    assert [(permission["verb"], permission["resource"]) for permission in found["missing"]] == [
        ("list", "pods"),
        ("watch", "pods"),
    ]


def test_permissions_for_unserved_kinds_are_not_checked(live: Allot) -> None:
    """This lab has no Karpenter, so permissions for its NodeClaims are not required."""
    ran = live("rbac", "autoscaler", "--check", "--as", "system:serviceaccount:missing:missing", "-o", "json")
    assert ran.code == 1
    (found,) = json.loads(ran.out)["parts"]
    resources = {permission["resource"] for permission in found["missing"]}
    assert "pods" in resources
    assert "nodeclaims" not in resources
