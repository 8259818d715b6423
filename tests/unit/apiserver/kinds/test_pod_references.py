from __future__ import annotations

from typing import Any

import pytest

from allotment.apiserver.kinds.pod_references import (
    config_map_names,
    referenced_resource,
    resource_claim_names,
    secret_names,
    volume_claim_names,
)
from allotment.model.trees import Tree


def _pod(**spec: Any) -> Tree:
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def test_secrets_are_used_in_volumes_in_variables_and_to_pull_images() -> None:
    pod = _pod(
        imagePullSecrets=[{"name": "pull"}, {"name": ""}],
        initContainers=[{"envFrom": [{"secretRef": {"name": "all"}}, {"configMapRef": {"name": "map"}}]}],
        ephemeralContainers=[{"env": [{"valueFrom": {"secretKeyRef": {"name": "one"}}}, {"value": "a"}]}],
        volumes=[
            {"secret": {"secretName": "mounted"}}, {"csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
            {"projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "map"}}]}},
            {"azureFile": {"secretName": "share"}}, {"emptyDir": {}},
        ],
    )  # fmt: skip
    assert list(secret_names(pod)) == ["pull", "all", "one", "mounted", "csi", "part", "share"]
    assert list(config_map_names(pod)) == ["map", "map"]


def test_claims_are_named_or_generated() -> None:
    pod = _pod(
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
        resourceClaims=[
            {"name": "a", "resourceClaimName": "shared"}, {"name": "b", "resourceClaimTemplateName": "t"},
            {"name": "c", "resourceClaimTemplateName": "t"},
        ],
    )  # fmt: skip
    pod["status"] = {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "web-b"}, {"name": "c"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    }
    assert list(volume_claim_names(pod)) == ["c", "web-scratch"]
    assert list(resource_claim_names(pod)) == ["shared", "web-b", "extended"]


@pytest.mark.parametrize(
    ("spec", "resource"),
    [
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"volumes": [{"secret": {"secretName": "a"}}]}, "secrets"),
        ({"volumes": [{"configMap": {"name": "a"}}]}, "configmaps"),
        ({"resourceClaims": [{"name": "a"}]}, "resourceclaims"),
        ({"volumes": [{"csi": {"driver": "a"}}]}, "csidrivers (via CSI volumes)"),
        ({"volumes": [{"ephemeral": {}}]}, "persistentvolumeclaims (via ephemeral volumes)"),
        (
            {"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "serviceaccounts (via projected volumes)",
        ),
        ({"volumes": [{"projected": {"sources": [{"downwardAPI": {}}]}}, {"hostPath": {"path": "/"}}]}, ""),
        ({}, ""),
    ],
)
def test_the_first_referenced_kind_is_named(spec: Tree, resource: str) -> None:
    assert referenced_resource(_pod(**spec)) == resource
