"""DeviceTaintRules served by the API: the versions of each release, and their differences."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.apiserver.served import Served

GROUP = "/apis/resource.k8s.io"
RULE: Tree = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
ON = {"DRADeviceTaintRules": True}


def rules(version: str) -> str:
    return f"{GROUP}/{version}/devicetaintrules"


@pytest.mark.parametrize(
    ("release", "runtime_config", "versions"),
    [
        ("1.36", (), []),
        ("1.36", ("api/all=true",), ["v1beta2", "v1alpha3"]),
        ("1.37", (), ["v1"]),
        ("1.37", ("api/all=true",), ["v1", "v1beta2", "v1alpha3"]),
    ],
)
def test_each_release_serves_its_versions(release: str, runtime_config: tuple[str, ...], versions: list[str]) -> None:
    async def serving_versions() -> list[str]:
        served = Served(features=Features(release), runtime_config=runtime_config)
        group = (await served.get(GROUP)).body["versions"]
        lists = {
            version_info["version"]: await served.get(f"{GROUP}/{version_info['version']}") for version_info in group
        }
        return [
            v for v, response in lists.items() if "devicetaintrules" in [r["name"] for r in response.body["resources"]]
        ]

    assert asyncio.run(serving_versions()) == versions


def test_a_rule_is_the_same_in_every_version() -> None:
    async def scenario() -> None:
        served = Served(features=Features("1.37"))
        for written in ("v1", "v1beta2", "v1alpha3"):
            created = await served.post(rules(written), {**RULE, "metadata": {"name": written}})
            for read in ("v1", "v1beta2", "v1alpha3"):
                read_back = (await served.get(f"{rules(read)}/{written}")).body
                assert (read_back["apiVersion"], read_back["spec"]) == (f"resource.k8s.io/{read}", created.body["spec"])

    asyncio.run(scenario())


def test_updates_in_v1_require_a_resource_version() -> None:
    async def scenario() -> None:
        served = Served(features=Features("1.37"))
        assert (await served.post(rules("v1"), RULE)).code == 201
        assert (await served.put(f"{rules('v1beta2')}/r", RULE)).code == 200
        response = await served.put(f"{rules('v1')}/r", RULE)
        assert response.code == 422
        assert response.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")

    asyncio.run(scenario())


def test_1_36_does_not_serve_v1() -> None:
    async def scenario() -> None:
        served = Served(features=Features("1.36", ON))
        assert (await served.post(rules("v1"), RULE)).code == 404
        response = await served.post(rules("v1beta2"), {**RULE, "apiVersion": "resource.k8s.io/v1"})
        assert response.code == 400
        assert 'no kind "DeviceTaintRule" is registered for version "resource.k8s.io/v1"' in response.message

    asyncio.run(scenario())


@pytest.mark.parametrize("recording", ["137-40-dra-validation-p2", "137-41-dra-updates-p2"])
def test_1_37_matches_the_recorded_responses(recording: str, shared: Callable[[str], Path]) -> None:
    with gzip.open(shared(f"vectors/k8s-1.37/apiserver/{recording}.jsonl.gz"), "rt") as file:
        rows = [row for row in map(json.loads, file) if "devicetaintrules" in row["request"]["path"]]
    assert len(rows) > 10

    async def scenario() -> None:
        served = Served(features=Features("1.37"))
        for row in rows:
            request, recorded = row["request"], row["response"]
            media = request.get("headers", {}).get("Content-Type", "application/json")
            response = await served.request(request["method"], request["path"], request.get("body"), media)
            assert response.code == recorded["code"], (row["name"], response.body)
            if response.code >= 400:
                assert response.message == recorded["body"]["message"], row["name"]
            elif "spec" in recorded["body"]:
                assert comparable(response.body) == comparable(recorded["body"]), row["name"]

    asyncio.run(scenario())


def comparable(rule: Tree) -> Tree:
    """The parts of a rule that depend on the version and on writes."""
    taint = {key: value for key, value in rule["spec"]["taint"].items() if key != "timeAdded"}
    spec = {**rule["spec"], "taint": taint}
    return {"apiVersion": rule["apiVersion"], "generation": rule["metadata"].get("generation"), "spec": spec}
