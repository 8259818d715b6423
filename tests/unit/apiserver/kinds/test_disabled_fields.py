"""Fields of features whose gates are off: dropped, unless they are stored."""

from __future__ import annotations

import pytest

from allotment.apiserver.kinds.disabled_fields import drop_for
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import write

GROUP: Tree = {"schedulingGroup": {"podGroupName": "g"}}
ON = Features("1.37", {"GenericWorkload": True})
OFF = Features("1.37")


def dropped(bucket: str, tree: Tree, old: Tree | None = None, features: Features = OFF) -> Tree:
    return drop_for(bucket)(tree, old, write()._replace(features=features))


@pytest.mark.parametrize(
    ("bucket", "path"),
    [
        ("pods", "spec"),
        ("podtemplates", "template.spec"),
        ("deployments.apps", "spec.template.spec"),
        ("jobs.batch", "spec.template.spec"),
        ("cronjobs.batch", "spec.jobTemplate.spec.template.spec"),
    ],
)
def test_pods_are_in_groups_only_with_the_gate(bucket: str, path: str) -> None:
    def at(pod: Tree) -> Tree:
        tree = pod
        for step in reversed(path.split(".")):
            tree = {step: tree}
        return tree

    written = at({"nodeName": "n", **GROUP})
    assert dropped(bucket, written) == at({"nodeName": "n"})
    assert dropped(bucket, written, features=ON) is written
    assert dropped(bucket, written, at(GROUP)) is written


def test_claims_of_groups_are_enough() -> None:
    """In 1.36 the gate of claims of groups is used alone."""
    features = Features("1.36", {"DRAWorkloadResourceClaims": True})
    assert dropped("pods", {"spec": GROUP}, features=features)["spec"] == GROUP


def test_other_kinds_are_unchanged() -> None:
    tree = {"spec": GROUP}
    assert dropped("services", tree) is tree
