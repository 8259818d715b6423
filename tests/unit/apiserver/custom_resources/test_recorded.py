"""Custom resources compared with a recording: valid and invalid definitions and objects, and their lifecycle.

``recorded.jsonl`` contains the responses of kube-apiserver 1.36.2 to these requests in order, without managed fields;
responses without a body are not compared. UIDs, revisions and times are ignored.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from allotment.model.trees import Tree
from tests.unit.apiserver.served import DecodedResponse, Served

IGNORED_FIELDS = {"uid", "resourceVersion", "creationTimestamp", "lastTransitionTime", "managedFields"}
#: Names of requests whose responses differ, and the reason.
EXPECTED_DIFFERENCES = {
    "definition: cel syntax": "ANTLR prints the list of tokens that the parser expected",
    "object: emb2": "metadata of embedded objects is not decoded as in Go",
    "no status in v2": "all versions of a kind have the same subresources",
    "table": "the description of the name column differs",
}


def recorded() -> list[Tree]:
    lines = Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def without_ignored_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_ignored_fields(item) for name, item in value.items() if name not in IGNORED_FIELDS}
    return [without_ignored_fields(item) for item in value] if isinstance(value, list) else value


def comparable(body: Any, row: Tree) -> Any:
    """The parts of a response to compare; causes of errors in any order, for Go maps are unordered."""
    body = without_ignored_fields(body)
    if row["code"] < 400:
        return {"status": body["status"]} if row["name"].startswith("definition, ") else body
    if isinstance(body, str):
        return body
    causes = (body.get("details") or {}).get("causes") or ()
    prefix, _, problems = body.get("message", "").partition(" is invalid: ")
    return (
        prefix,
        sorted(problems.removeprefix("[").removesuffix("]").split(", ")),
        body.get("reason"),
        body.get("code"),
        sorted(json.dumps(cause, sort_keys=True) for cause in causes),
    )


async def send(served: Served, row: Tree) -> DecodedResponse:
    headers = {"user_agent": "test/1"} | ({"accept": row["accept"]} if "accept" in row else {})
    return await served.request(row["method"], row["path"], row.get("send"), row.get("type", ""), **headers)


def test_custom_resources_match_the_recorded_responses() -> None:
    async def replay() -> tuple[int, list[str]]:
        served = await Served().started()
        same, differing = 0, []
        for row in recorded():
            response = await send(served, row)
            for _ in range(3):  # the cleanup of a deleted definition runs after the response
                await asyncio.sleep(0)
            body = response.body.decode() if isinstance(response.body, bytes) else response.body
            is_equal = "body" not in row or comparable(body, row) == comparable(row["body"], row)
            if is_equal and response.code == row["code"]:
                same += 1
            else:
                differing.append(row["name"])
        return same, differing

    same, differing = asyncio.run(replay())
    assert set(differing) == set(EXPECTED_DIFFERENCES)
    assert same >= 165


def test_deprecated_versions_return_warnings() -> None:
    async def replay() -> None:
        served = await Served().started()
        for row in recorded():
            response = await send(served, row)
            if "deprecated" in str(row.get("warnings")):
                assert response.warnings == row["warnings"], row["name"]

    asyncio.run(replay())
