from __future__ import annotations

import pytest

from allotment.apiserver.pod_security.levels import Level, Policy, label_errors, policy_of
from allotment.model.trees import Tree
from tests.admission_requests.request import levels


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        ({}, Policy()),
        ({"app": "web"}, Policy()),
        (levels(enforce="baseline"), Policy(Level("baseline"), Level(), Level("baseline"))),
        (
            levels(enforce="baseline", enforce_version="v1.30", warn="restricted"),
            Policy(Level("baseline", "v1.30"), Level(), Level("restricted")),
        ),
        (
            levels(enforce="restricted", enforce_version="v1.30", warn_version="v1.31"),
            Policy(Level("restricted", "v1.30"), Level(), Level("restricted", "v1.31")),
        ),
        (levels(enforce="baseline", warn="privileged"), Policy(Level("baseline"))),
        # Invalid labels restrict as much as possible, but cause no warnings.
        (levels(enforce="x", enforce_version="1.30", audit="x", warn="x"), Policy(Level("restricted"))),
        (levels(enforce_version="v1.30"), Policy(Level("privileged", "v1.30"))),
    ],
)
def test_labels_select_a_level_for_each_mode(labels: Tree, policy: Policy) -> None:
    assert policy_of(labels) == policy


@pytest.mark.parametrize("version", ["latest", "v1.0", "v1.30", "v1.400"])
def test_versions_are_valid(version: str) -> None:
    assert not list(label_errors(levels(warn_version=version)))


@pytest.mark.parametrize("version", ["", "1.30", "v1.030", "v2.0", "v1.30.1", "Latest", "v1.-1", "v1.3\n"])
def test_versions_are_invalid(version: str) -> None:
    (error,) = label_errors(levels(warn_version=version))
    assert (error.path, error.detail) == (
        "metadata.labels[pod-security.kubernetes.io/warn-version]", 'must be "latest" or "v1.x"'
    )  # fmt: skip
