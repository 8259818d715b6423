from __future__ import annotations

from typing import Any

import pytest

from allotment.model.core import Pod
from allotment.model.validation.pods import pod_claim_statuses, pod_claims
from tests.unit.model.validation.validating import texts, value


def pod(claims: list[Any], uses: list[Any], status: Any = None, **meta: Any) -> Pod:
    tree = {
        "metadata": {"name": "p"} | meta,
        "spec": {
            "resourceClaims": claims,
            "containers": [{"name": "c", "resources": {"claims": uses, "requests": {"example.com/gpu": "1"}}}],
        },
        "status": status or {},
    }
    return value(Pod, tree)


G = {"name": "g", "resourceClaimName": "a"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)


@pytest.mark.parametrize(
    ("claims", "uses", "expected"),
    [
        ([G], [{"name": "g"}], []),
        ([G], [{"name": "g", "request": "a"}, {"name": "g", "request": "b"}], []),
        (
            [],
            [{"name": "nope"}],
            [
                (
                    'spec.containers[0].resources.claims[0]: Not found: "nope": must be one of the names in '
                    "pod.spec.resourceClaims which is empty"
                )
            ],
        ),
        (
            [G, G | {"name": "b"}],
            [{"name": "nope"}, {}],
            [
                (
                    'spec.containers[0].resources.claims[0]: Not found: "nope": must be one of the names in '
                    "pod.spec.resourceClaims: b, g"
                ),
                "spec.containers[0].resources.claims[1]: Required value",
            ],
        ),
        (
            [G | {"resourceClaimTemplateName": "b"}],
            [],
            [
                (
                    'spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":"a",'
                    '"ResourceClaimTemplateName":"b"}: at most one of `resourceClaimName` or '
                    "`resourceClaimTemplateName` may be specified"
                )
            ],
        ),
        (
            [{"name": "g"}],
            [],
            [
                (
                    'spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":null,'
                    '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
                    "`resourceClaimTemplateName`"
                )
            ],
        ),
        (
            [G, G],
            [{"name": "g"}, {"name": "g"}],
            [
                'spec.resourceClaims[1].name: Duplicate value: "g"',
                'spec.containers[0].resources.claims[1]: Duplicate value: "g"',
            ],
        ),
        (
            [G],
            [{"name": "g", "request": "a"}, {"name": "g", "request": "a"}, {"name": "g"}],
            [
                'spec.containers[0].resources.claims[1]: Duplicate value: "g/a"',
                'spec.containers[0].resources.claims[2]: Duplicate value: "g"',
            ],
        ),
        (
            [{"name": "G_", "resourceClaimName": "a"}],
            [],
            [f'spec.resourceClaims[0].name: Invalid value: "G_": {LABEL}'],
        ),
        (
            [G],
            [{"name": "g", "request": "A B"}],
            [f'spec.containers[0].resources.claims[0].request: Invalid value: "A B": {LABEL}'],
        ),
    ],
)
def test_claims_of_pods(claims: list[Any], uses: list[Any], expected: list[str]) -> None:
    assert texts(pod_claims(pod(claims, uses))) == expected


def test_static_pods_have_no_claims() -> None:
    mirrored = pod([G], [], annotations={"kubernetes.io/config.mirror": "x"})
    assert texts(pod_claims(mirrored)) == [": Forbidden: static pods do not support resource claims"]


def test_pod_level_resources_have_no_claims() -> None:
    tree = {"spec": {"resources": {"claims": [{"name": "g"}]}}}
    assert texts(pod_claims(value(Pod, tree))) == [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"
    ]


def test_claim_statuses_of_pods() -> None:
    status = {
        "resourceClaimStatuses": [{"name": "g", "resourceClaimName": "a"}, {"name": "zzz"}, {"name": "g"}],
        "extendedResourceClaimStatus": {
            "requestMappings": [
                {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"},
                {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"},
                {"containerName": "c", "resourceName": "other", "requestName": "r"},
                {"containerName": "d", "resourceName": "other", "requestName": "r"},
            ]
        },
    }
    assert texts(pod_claim_statuses(pod([G], [], status))) == [
        (
            'status.resourceClaimStatuses[1].name: Invalid value: "zzz": must match the name of an entry in '
            "`spec.resourceClaims`"
        ),
        'status.resourceClaimStatuses[2].name: Duplicate value: "g"',
        'status.extendedResourceClaimStatus.requestMappings[1].containerName: Duplicate value: "c"',
        'status.extendedResourceClaimStatus.requestMappings[1].resourceName: Duplicate value: "example.com/gpu"',
        'status.extendedResourceClaimStatus.requestMappings[1].requestName: Duplicate value: "r"',
        (
            'status.extendedResourceClaimStatus.requestMappings[2].resourceName: Invalid value: "other": must match '
            "the extended resource name of an entry in spec.initContainers.resources.requests or "
            "spec.containers.resources.requests"
        ),
        (
            'status.extendedResourceClaimStatus.requestMappings[3].containerName: Invalid value: "d": must match the '
            "name of an entry in spec.initContainers.name or spec.containers.name"
        ),
        "status.extendedResourceClaimStatus.resourceClaimName: Required value",
    ]
    empty = {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}
    assert texts(pod_claim_statuses(pod([G], [], empty))) == [
        "status.extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping is required"
    ]
