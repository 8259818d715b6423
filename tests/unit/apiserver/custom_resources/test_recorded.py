"""Custom kinds against a recording: definitions good and bad, objects good and bad, and a life of one.

``recorded.jsonl`` holds what kube-apiserver 1.36.2 answered to these requests, one after the other, without managed
fields; steps without a body only change the scene. Uids, revisions and times are not compared.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from allotment.model.trees import Tree
from tests.unit.apiserver.served import Said, Served

FREE = {"uid", "resourceVersion", "creationTimestamp", "lastTransitionTime", "managedFields"}
#: What is otherwise here, and why.
OTHERWISE = {
    "definition: cel syntax": "the list of tokens that the parser expected is ANTLR's",
    "object: emb2": "metadata of embedded objects is not read as Go would",
    "no status in v2": "the versions of a kind have their subresources in common",
    "table": "the name's column is described in other words",
}


def recorded() -> list[Tree]:
    lines = Path(__file__).with_name("recorded.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def bare(value: Any) -> Any:
    """Without what is free."""
    if isinstance(value, dict):
        return {name: bare(each) for name, each in value.items() if name not in FREE}
    return [bare(each) for each in value] if isinstance(value, list) else value


def comparable(body: Any, row: Tree) -> Any:
    """An answer as far as it is compared: of refusals the causes in any order, for Go's maps have none."""
    body = bare(body)
    if row["code"] < 400:
        return {"status": body["status"]} if row["name"].startswith("definition, ") else body
    if isinstance(body, str):
        return body
    causes = (body.get("details") or {}).get("causes") or ()
    about, _, problems = body.get("message", "").partition(" is invalid: ")
    return (
        about,
        sorted(problems.removeprefix("[").removesuffix("]").split(", ")),
        body.get("reason"),
        body.get("code"),
        sorted(json.dumps(cause, sort_keys=True) for cause in causes),
    )


async def say(served: Served, row: Tree) -> Said:
    headers = {"user_agent": "test/1"} | ({"accept": row["accept"]} if "accept" in row else {})
    return await served.say(row["method"], row["path"], row.get("send"), row.get("type", ""), **headers)


def test_custom_kinds_answer_as_the_real_server_does() -> None:
    async def replay() -> tuple[int, list[str]]:
        served = await Served().started()
        same, differing = 0, []
        for row in recorded():
            said = await say(served, row)
            body = said.body.decode() if isinstance(said.body, bytes) else said.body
            alike = "body" not in row or comparable(body, row) == comparable(row["body"], row)
            if alike and said.code == row["code"]:
                same += 1
            else:
                differing.append(row["name"])
        return same, differing

    same, differing = asyncio.run(replay())
    assert set(differing) == set(OTHERWISE)
    assert same >= 165


def test_users_of_deprecated_versions_are_warned() -> None:
    async def replay() -> None:
        served = await Served().started()
        for row in recorded():
            said = await say(served, row)
            if "deprecated" in str(row.get("warnings")):
                assert said.warnings == row["warnings"], row["name"]

    asyncio.run(replay())
