"""Replays recorded requests against a fresh lab, one after another, and compares each answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from allotment.apiserver.exchange import Peer, Request, Response, Streaming
from tests.vectors.apiserver.comparing import answer_difference, body_difference
from tests.vectors.apiserver.driven import acts
from tests.vectors.apiserver.masking import Correspondence, body_of
from tests.vectors.apiserver.recording import FIXTURES, Row, in_order, rows
from tests.vectors.apiserver.world import World
from tests.vectors.result import Result

#: A member of system:masters: who asks where a row names nobody.
ADMIN = Peer("recorder", ("system:masters",))
#: A watch that the recorded server did not end is read until its events are there, or for so many seconds.
PATIENCE = 2.0
#: Namespaces that a scenario uses and another made.
NEEDED = {"40-dra-validation": "val", "50-seed-manifests": "seeds"}
EXPIRED = "29-expired"


async def replayed(scored: list[Row]) -> list[Result]:
    """Every scored row, answered in a fresh lab per scenario."""
    results: list[Result] = []
    marked = in_order(scored)
    for scenario in dict.fromkeys(row["scenario"] for row, _ in marked):
        async with World.started() as world:
            replay = _Replay(world)
            if scenario != "00-fixtures":
                await replay.prepared(scenario)
            for row, counts in (entry for entry in marked if entry[0]["scenario"] == scenario):
                if scenario == EXPIRED:
                    await replay.expire(row)
                found = await replay.row(row)
                if counts:
                    results.append(Result(f"{scenario}#{row['seq']} {row['name']}", not found, found))
    return results


class _Replay:
    def __init__(self, world: World) -> None:
        self.world = world
        self.known = Correspondence()

    async def prepared(self, scenario: str) -> None:
        for row in rows(FIXTURES):
            await self.row(row)
        if scenario in NEEDED:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NEEDED[scenario]}}
            await self.ask("POST", "/api/v1/namespaces", body)
            await self.world.settled()

    async def expire(self, row: Row) -> None:
        """The recorded server had been restarted and its history compacted at some moments."""
        configmaps = "/api/v1/namespaces/default/configmaps"
        if row["seq"] == 0:
            for name in ("c1", "c2", "c3"):
                await self.ask("POST", configmaps, {"metadata": {"name": name}})
            await self.world.settled()
        if row["seq"] == 1:
            self.world.store.compact(self.world.store.revision)
        if row["name"].startswith("list NotOlderThan"):
            await self.ask("PUT", f"{configmaps}/c1", {"metadata": {"name": "c1"}, "data": {"x": "2"}})

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """An act beside the recording: its decoded answer."""
        path, _, query = path.partition("?")
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        sent = b"" if body is None else json.dumps(body).encode()
        answer = await self.world.ask(Request(method, path, query, {"content-type": kind}, sent, ADMIN))
        assert isinstance(answer, Response), f"{method} {path}: {answer}"
        assert answer.code < 400, f"{method} {path}: {answer.body.decode()}"
        return json.loads(answer.body)

    async def row(self, row: Row) -> str:
        """Replay a row; how our answer differs."""
        asked, recorded = row["request"], row["response"]
        path, _, query = self.known.text(asked["path"]).partition("?")
        headers = {name.lower(): self.known.text(value) for name, value in (asked.get("headers") or {}).items()}
        body = body_of({"body": self.known.tree(asked["body"])} if "body" in asked else asked)
        peer = None if asked.get("user") == "(none)" or "authorization" in headers else ADMIN
        request = Request(asked["method"], path, query, headers, body, peer)
        answer = await self.world.ask(request)
        if isinstance(answer, Streaming):
            if "stream" not in recorded:
                await _closed(answer.pieces)
                return f"wanted {recorded['code']} {str(recorded.get('body'))[:300]}, found a stream"
            return await self.stream(row, answer)
        if not isinstance(answer, Response):
            return f"wanted code {recorded['code']}, found an upgrade"
        if "stream" in recorded:
            return f"wanted a stream, found {answer.code}: {answer.body[:300]!r}"
        if "json" in dict(answer.headers).get("Content-Type", "") and isinstance(recorded.get("body"), dict):
            self.known.learn(recorded["body"], json.loads(answer.body or b"null"))
        if (etag := {k.lower(): v for k, v in answer.headers}.get("etag")) and "etag" in (
            recorded.get("headers") or {}
        ):
            self.known.values[recorded["headers"]["etag"]] = etag
            self.known.values[recorded["headers"]["etag"].strip('"')] = etag.strip('"')
        if asked["method"] != "GET":
            await self.world.settled()
        ours = {name.lower(): value for name, value in answer.headers}
        return answer_difference(asked["path"], recorded, answer.code, ours, answer.body)

    async def stream(self, row: Row, answer: Streaming) -> str:
        recorded = row["response"]
        if recorded["code"] != answer.code:
            await _closed(answer.pieces)
            return f"wanted code {recorded['code']}, found {answer.code}"
        events: list[Any] = []
        wanted = [event for event in recorded["stream"] if event.get("type") != "BOOKMARK" or _ends_initial(event)]
        closes = bool(recorded.get("server_closed")) and "timeoutSeconds" in row["request"]["path"]

        async def read() -> None:
            rest = b""
            async for piece in answer.pieces:
                *lines, rest = (rest + piece).split(b"\n")
                events.extend(json.loads(line) for line in lines if line)
                if not closes and len(events) >= len(wanted):
                    return

        reading = asyncio.create_task(read())
        if "timeoutSeconds" not in row["request"]["path"]:
            await asyncio.sleep(0.01)
            for act in acts(row):
                await self.ask(act.method, act.path, self.known.tree(act.body))
                await self.world.settled()
        try:
            await asyncio.wait_for(reading, PATIENCE + 2 if closes else PATIENCE)
        except TimeoutError:
            if closes:
                return f"the watch was not ended; events: {json.dumps(events)[:500]}"
        finally:
            await _closed(answer.pieces)
        ours = [event for event in events if event.get("type") != "BOOKMARK" or _ends_initial(event)]
        self.known.learn(wanted, ours)
        return body_difference(row["request"]["path"], {"events": wanted}, {"events": ours})


def _ends_initial(event: Any) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return bool(annotations.get("k8s.io/initial-events-end"))


async def _closed(pieces: AsyncIterator[bytes]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
