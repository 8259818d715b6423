"""DeviceTaintRules behind the API: in which versions each release has them, and how versions differ."""

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
    ("features", "versions"),
    [
        (Features("1.36"), []), (Features("1.36", ON), ["v1beta2", "v1alpha3"]),
        (Features("1.37"), ["v1", "v1beta2", "v1alpha3"]), (Features("1.37", {"DRADeviceTaintRules": False}), []),
    ],
    ids=["1.36", "1.36 with the gate", "1.37", "1.37 without the gate"],
)  # fmt: skip
def test_releases_serve_them_in_their_versions(features: Features, versions: list[str]) -> None:
    async def found() -> list[str]:
        served = Served(features=features)
        group = (await served.get(GROUP)).body["versions"]
        lists = {one["version"]: await served.get(f"{GROUP}/{one['version']}") for one in group}
        return [v for v, said in lists.items() if "devicetaintrules" in [r["name"] for r in said.body["resources"]]]

    assert asyncio.run(found()) == versions


def test_a_rule_is_the_same_in_every_version() -> None:
    async def story() -> None:
        served = Served(features=Features("1.37"))
        for written in ("v1", "v1beta2", "v1alpha3"):
            made = await served.post(rules(written), {**RULE, "metadata": {"name": written}})
            for read in ("v1", "v1beta2", "v1alpha3"):
                seen = (await served.get(f"{rules(read)}/{written}")).body
                assert (seen["apiVersion"], seen["spec"]) == (f"resource.k8s.io/{read}", made.body["spec"])

    asyncio.run(story())


def test_in_v1_no_rule_is_replaced_blindly() -> None:
    async def story() -> None:
        served = Served(features=Features("1.37"))
        assert (await served.post(rules("v1"), RULE)).code == 201
        assert (await served.put(f"{rules('v1beta2')}/r", RULE)).code == 200
        said = await served.put(f"{rules('v1')}/r", RULE)
        assert said.code == 422
        assert said.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")

    asyncio.run(story())


def test_1_36_knows_no_rule_of_v1() -> None:
    async def story() -> None:
        served = Served(features=Features("1.36", ON))
        assert (await served.post(rules("v1"), RULE)).code == 404
        said = await served.post(rules("v1beta2"), {**RULE, "apiVersion": "resource.k8s.io/v1"})
        assert said.code == 400
        assert 'no kind "DeviceTaintRule" is registered for version "resource.k8s.io/v1"' in said.message

    asyncio.run(story())


@pytest.mark.parametrize("recording", ["137-40-dra-validation-p2", "137-41-dra-updates-p2"])
def test_1_37_is_answered_as_recorded(recording: str, shared: Callable[[str], Path]) -> None:
    with gzip.open(shared(f"vectors/k8s-1.37/apiserver/{recording}.jsonl.gz"), "rt") as file:
        rows = [row for row in map(json.loads, file) if "devicetaintrules" in row["request"]["path"]]
    assert len(rows) > 10

    async def story() -> None:
        served = Served(features=Features("1.37"))
        for row in rows:
            request, recorded = row["request"], row["response"]
            media = request.get("headers", {}).get("Content-Type", "application/json")
            said = await served.say(request["method"], request["path"], request.get("body"), media)
            assert said.code == recorded["code"], (row["name"], said.body)
            if said.code >= 400:
                assert said.message == recorded["body"]["message"], row["name"]
            elif "spec" in recorded["body"]:
                assert without_time(said.body) == without_time(recorded["body"]), row["name"]

    asyncio.run(story())


def without_time(rule: Tree) -> Tree:
    """What versions and writes decide of a rule."""
    taint = {key: value for key, value in rule["spec"]["taint"].items() if key != "timeAdded"}
    spec = {**rule["spec"], "taint": taint}
    return {"apiVersion": rule["apiVersion"], "generation": rule["metadata"].get("generation"), "spec": spec}
