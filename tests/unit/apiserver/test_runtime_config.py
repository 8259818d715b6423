"""``--runtime-config``: which values are accepted, what they enable, and kube-apiserver's messages for the others."""

from __future__ import annotations

import pytest

from allotment.apiserver.runtime_config import RuntimeConfigError, parse_runtime_config, served_resources
from allotment.model.features import Features

PLAIN = Features("1.37")


def versions(plural: str, *runtime_config: str) -> tuple[str, ...]:
    found = [resource.versions for resource in served_resources(PLAIN, runtime_config) if resource.plural == plural]
    return found[0] if found else ()


@pytest.mark.parametrize(
    ("runtime_config", "expected"),
    [
        ("", ("v1",)),
        ("api/beta=true", ("v1", "v1beta2", "v1beta1")),
        ("api/alpha=true", ("v1",)),
        ("api/ga=false", ()),
        ("resource.k8s.io/v1beta1=true", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta1", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta1/resourceclaims=true", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta1/resourceslices=true", ("v1",)),
        ("api/all=true,resource.k8s.io/v1beta2=false", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta2=false,api/all=true", ("v1", "v1beta1")),
        ("resource.k8s.io/v1beta2=true,resource.k8s.io/v1beta2/resourceclaims=false", ("v1",)),
        ("storage.k8s.io/v1beta1=true", ("v1",)),
    ],
)
def test_the_more_specific_value_applies(runtime_config: str, expected: tuple[str, ...]) -> None:
    assert versions("resourceclaims", runtime_config) == expected


def test_the_option_can_be_repeated() -> None:
    assert parse_runtime_config(["api/all=false", " api/ga = true ,"]) == {"api/all": "false", "api/ga": "true"}
    assert versions("pods", "api/all=false", "api/ga=true") == ("v1",)


@pytest.mark.parametrize(
    ("runtime_config", "message"),
    [
        ("api/all=false", "invalid runtime-config with only api/all=false"),
        ("api/beta=yes", "invalid value api/beta=yes"),
        ("pods", "runtime-config invalid key pods"),
        ("api/legacy=true,nope.example.com/v1", "unknown api groups api/legacy,nope.example.com/v1"),
        ("resource.k8s.io/v1alpha2=true", "group version resource.k8s.io/v1alpha2 that has not been registered"),
        (
            "resource.k8s.io/v1=on",
            'invalid value of resource.k8s.io/v1: on, err: strconv.ParseBool: parsing "on": invalid syntax',
        ),
        (
            "resource.k8s.io/v1/ResourceClaims=true",
            (
                "invalid key resource.k8s.io/v1/ResourceClaims: group/version/resource and resource is always "
                'lowercase plural, not "ResourceClaims"'
            ),
        ),
    ],
)
def test_invalid_values_are_refused_with_the_servers_message(runtime_config: str, message: str) -> None:
    with pytest.raises(RuntimeConfigError) as refused:
        served_resources(PLAIN, [runtime_config])
    assert str(refused.value) == message
