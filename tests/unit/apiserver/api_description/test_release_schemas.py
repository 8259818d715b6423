"""Every schema of a release in OpenAPI, with its fields, their types and the required ones, against a real server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.api_description.groups import by_group
from allotment.apiserver.api_description.openapi import openapi_v3, openapi_v3_version
from allotment.apiserver.built_in_kinds import built_in_kinds
from tests.vectors.apiserver.recorded_servers import recorded_server

#: Schemas of a real server that a lab does not have: kinds that it does not serve, and documents about groups and
#: versions, which no field refers to.
MISSING = (
    "io.k8s.api.core.v1.ComponentCondition", "io.k8s.api.core.v1.ComponentStatus",
    "io.k8s.api.core.v1.ComponentStatusList", "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup",
    "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
)  # fmt: skip
AGGREGATION = "io.k8s.kube-aggregator."


def kind_of(schema: Any) -> str:
    """A type as in the recording: ``string``, ``array[string]``, the name of a schema."""
    if "allOf" in schema:
        schema = schema["allOf"][0]
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"array[{schema['items'].get('type', '')}]"
    return str(schema.get("type", ""))


@pytest.mark.parametrize("part", ["p1", "p2"])
def test_schemas_are_those_of_the_release(part: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"vectors/k8s-1.37/apiserver/137-12-schema-fields-{part}.json.gz")
    with gzip.open(path, "rt") as file:
        recorded = json.load(file)
    server = recorded_server(path.name)
    actual = openapi_v3_version(server.release)["components"]["schemas"]
    for group, versions in by_group(built_in_kinds(server.features, server.runtime_config)).items():
        for version, kinds in versions.items():
            actual |= openapi_v3(kinds, group, version, server.release)["components"]["schemas"]
    missing = recorded.keys() - actual.keys()
    assert {name for name in missing if not name.startswith(AGGREGATION)} == set(MISSING)
    # Lists of kinds that can only be created, such as reviews.
    assert all(name.endswith("List") for name in actual.keys() - recorded.keys())
    for name in recorded.keys() & actual.keys():
        expected, schema = recorded[name], actual[name]
        fields = {field: kind_of(property_) for field, property_ in schema.get("properties", {}).items()}
        assert fields == expected["properties"], name
        assert sorted(schema.get("required", [])) == sorted(expected["required"]), name
