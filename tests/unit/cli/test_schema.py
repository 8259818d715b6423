"""The schema for editors, from the command line."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import Allot


def test_a_schema_of_claims_and_classes_is_printed(allot: Allot) -> None:
    ran = allot("schema")
    assert ran.code == 0
    made = json.loads(ran.out)
    assert made["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert {"ResourceClaim", "ResourceClaimTemplate", "DeviceClass"} <= set(made["definitions"])
    assert "PodSpec" not in made["definitions"]
    assert "$id" not in made


def test_fields_are_in_the_same_order_in_every_process(allot: Allot) -> None:
    """The order of a set of strings differs between processes."""
    properties = json.loads(allot("schema", "Pod").out)["definitions"]["ObjectMeta"]["properties"]
    set_by_the_server = [name for name, schema in properties.items() if schema is True]
    assert set_by_the_server == [
        "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "managedFields",
    ]  # fmt: skip


def test_other_kinds_and_an_id(allot: Allot) -> None:
    made = json.loads(allot("schema", "Pod", "Deployment", "--id", "https://example.com/pods.json").out)
    assert made["$id"] == "https://example.com/pods.json"
    assert "PodResourceClaim" in made["definitions"]


def test_another_release(allot: Allot) -> None:
    assert "Requires feature gate DRADeviceTaints" in allot("schema", "--kube-version", "1.34").out
    assert "Requires feature gate DRADeviceTaints" not in allot("schema").out


def test_unknown_kind_and_release_are_rejected(allot: Allot) -> None:
    ran = allot("schema", "ResourceClam")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean ResourceClaim?" in ran.err
    assert "expected one of 1.34" in allot("schema", "--kube-version", "1.20").err
