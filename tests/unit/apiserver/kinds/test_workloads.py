from copy import deepcopy
from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import created, manifest, updated, write

TEMPLATE: Tree = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def deployment(**spec: Any) -> Tree:
    return manifest(spec={"selector": {"matchLabels": {"app": "x"}}, "template": deepcopy(TEMPLATE), **spec})


def test_a_minimal_deployment_is_valid() -> None:
    assert created("deployments.apps", deployment(), write())[1] == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"selector": None}, "spec.selector: Required value"),
        (
            {"selector": {"matchLabels": {"app": "y"}}},
            'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
        ),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
    ],
)
def test_invalid_deployments(spec: Tree, expected: str) -> None:
    assert expected in created("deployments.apps", deployment(**spec), write())[1]


def test_only_the_server_counts_template_changes_of_a_daemon_set() -> None:
    annotation = "deprecated.daemonset.template.generation"
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    old, errors = created("daemonsets.apps", manifest(spec=spec), write())
    assert errors == []
    assert old["metadata"]["annotations"] == {annotation: "1"}
    new = deepcopy(old)
    new["metadata"]["annotations"] = {annotation: "7", "a": "b"}
    same, _ = updated("daemonsets.apps", new, old, write())
    assert same["metadata"]["annotations"] == {annotation: "1", "a": "b"}
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "j"
    changed, _ = updated("daemonsets.apps", new, old, write())
    assert changed["metadata"]["annotations"] == {annotation: "2", "a": "b"}


def test_a_stateful_set_can_mount_its_volume_claim_templates() -> None:
    template = deepcopy(TEMPLATE)
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim: Tree = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template, "volumeClaimTemplates": [claim]}
    missing = "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"
    assert created("statefulsets.apps", manifest(spec=spec), write())[1] == [missing]
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    assert created("statefulsets.apps", manifest(spec=spec), write())[1] == []


def test_max_unavailable_of_a_stateful_set_is_dropped() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}}
    spec = {**deployment()["spec"], "podManagementPolicy": "Parallel", "updateStrategy": strategy}
    result, errors = created("statefulsets.apps", manifest(spec=spec), write())
    assert errors == []
    assert result["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_the_selector_is_immutable() -> None:
    old, _ = created("deployments.apps", deployment(), write())
    new = deepcopy(old)
    new["spec"]["selector"]["matchLabels"]["more"] = "z"
    new["spec"]["template"]["metadata"]["labels"]["more"] = "z"
    assert updated("deployments.apps", new, old, write())[1] == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"x","more":"z"}}: field is immutable'
    ]
