"""Replays recorded requests against a fresh lab, one after another, and compares each answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from allotment.apiserver.http_messages import Peer, Request, Response, Streaming
from tests.vectors.apiserver.comparing import answer_difference, body_difference
from tests.vectors.apiserver.driven import Act, acts
from tests.vectors.apiserver.masking import Correspondence, body_of
from tests.vectors.apiserver.recording import FIXTURES, Row, in_order, rows
from tests.vectors.apiserver.world import World
from tests.vectors.result import Result

#: A member of system:masters: who asks where a row names nobody.
ADMIN = Peer("recorder", ("system:masters",))
#: A watch that the recorded server did not end is read until its events are there, or for so many seconds.
PATIENCE = 60.0
#: How often a read is tried again that does not show what it should.
_LOOKS = 40
#: Namespaces that a scenario uses and another made.
NEEDED = {"40-dra-validation": "val", "50-seed-manifests": "seeds"}
EXPIRED = "29-expired"
_PENDING_CLAIM = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}  # fmt: skip
_HELM_SECRET = {"metadata": {"name": "sh.helm.release.v1.z2.v1"}, "type": "helm.sh/release.v1"}
#: What had been done before a row by requests that its recording does not hold.
_DONE: Mapping[tuple[str, int], tuple[Act, ...]] = {
    ("24-watch", 21): (
        Act("POST", "/api/v1/namespaces", {"metadata": {"name": "ssa"}}),
        Act("APPLY", "/apis/resource.k8s.io/v1/namespaces/ssa/resourceclaims/c?fieldManager=m1", _PENDING_CLAIM),
    ),
    ("25-tables", 8): tuple(
        Act("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for name in ("crud", "lists", "patch", "ssa", "watch")
    ),
    ("25-tables", 15): (
        Act("PATCH", "/apis/resource.k8s.io/v1/deviceclasses/gpu.amd.com", {"metadata": {"annotations": {"x": "1"}}}),
    ),
    ("28-protobuf-requests", 10): (
        Act("POST", "/api/v1/namespaces/pby/serviceaccounts", {"metadata": {"name": "bot"}}),
    ),
    ("28-protobuf-requests", 20): (Act("POST", "/api/v1/namespaces/pby/secrets?fieldManager=Helm", _HELM_SECRET),),
}
_SIDECAR = {"name": "side", "image": "s1"}
_TEMPLATE = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [_SIDECAR]}}
#: Bodies that were recorded wrong: the recorder changed the object for its next request before it wrote this one down.
#: The answer shows what had been sent.
_SENT: Mapping[tuple[str, int], Any] = {
    ("23-server-side-apply", 19): {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": _TEMPLATE},
    },
}  # fmt: skip
#: Whoever sent a request, where managed fields tell and the recorded headers do not.
_AGENTS: Mapping[str, Callable[[str], str]] = {
    "28-protobuf-requests": lambda name: "Helm/4.1.4" if name.startswith("helm") else "kubectl/v1.35.2"
}


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
                for act in _DONE.get((scenario, row["seq"]), ()):
                    await replay.ask(act.method, act.path, act.body, exists=True)
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

    async def ask(self, method: str, path: str, body: Any = None, *, exists: bool = False) -> None:
        """An act beside the recording; ``exists``: what it makes may be there already."""
        path, _, query = path.partition("?")
        kind = {"APPLY": "application/apply-patch+yaml", "PATCH": "application/merge-patch+json"}
        headers = {"content-type": kind.get(method, "application/json")}
        sent = b"" if body is None else json.dumps(body).encode()
        verb = "PATCH" if method == "APPLY" else method
        answer = await self.world.ask(Request(verb, path, query, headers, sent, ADMIN))
        assert isinstance(answer, Response), f"{method} {path}: {answer}"
        assert answer.code < 400 or (exists and answer.code == 409), f"{method} {path}: {answer.body.decode()}"

    async def row(self, row: Row) -> str:
        """Replay a row; how our answer differs."""
        asked, recorded = row["request"], row["response"]
        path, _, query = self.known.text(asked["path"]).partition("?")
        headers = {name.lower(): self.known.text(value) for name, value in (asked.get("headers") or {}).items()}
        if agent := _AGENTS.get(row["scenario"]):
            headers.setdefault("user-agent", agent(row["name"]))
        sent = _SENT.get((row["scenario"], row["seq"]), asked.get("body"))
        body = body_of(asked if sent is None else {"body": self.known.tree(sent)})
        peer = None if asked.get("user") == "(none)" or "authorization" in headers else ADMIN
        request = Request(asked["method"], path, query, headers, body, peer)
        answer = await self.world.ask(request)
        for _ in range(_LOOKS):  # what controllers write may come a moment later
            if asked["method"] != "GET" or not isinstance(answer, Response) or answer.code != 200:
                break
            if not self._difference(row, answer):
                break
            await asyncio.sleep(0.05)
            answer = await self.world.ask(request)
        if isinstance(answer, Streaming):
            if "stream" not in recorded:
                await _closed(answer.pieces)
                return f"wanted {recorded['code']} {str(recorded.get('body'))[:300]}, found a stream"
            return await self.stream(row, answer)
        if not isinstance(answer, Response):
            return f"wanted code {recorded['code']}, found an upgrade"
        if "stream" in recorded:
            wanted = [event for event in recorded["stream"] if "text" not in event]
            if answer.code != recorded["code"] or any("type" in event for event in wanted):
                return f"wanted {recorded['code']} and a stream, found {answer.code}: {answer.body[:300]!r}"
            return body_difference(asked["path"], wanted, [_decoded(answer)]) if wanted else ""
        ours = {name.lower(): value for name, value in answer.headers}
        if isinstance(recorded.get("body"), dict):
            self.known.learn(recorded["body"], _decoded(answer))
        if (etag := ours.get("etag")) and "etag" in (recorded.get("headers") or {}):
            self.known.values[recorded["headers"]["etag"]] = etag
            self.known.values[recorded["headers"]["etag"].strip('"')] = etag.strip('"')
        if asked["method"] != "GET":
            await self.world.settled()
        return self._difference(row, answer)

    def _difference(self, row: Row, answer: Response) -> str:
        headers = {name.lower(): value for name, value in answer.headers}
        return answer_difference(row["request"]["path"], row["response"], answer.code, headers, answer.body)

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
            for _ in range(50):  # turns, until the watch has begun
                await asyncio.sleep(0)
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


def _decoded(answer: Response) -> Any:
    """The body of an answer, if it is JSON."""
    try:
        return json.loads(answer.body or b"null")
    except ValueError:
        return answer.body.decode(errors="replace")


def _ends_initial(event: Any) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return bool(annotations.get("k8s.io/initial-events-end"))


async def _closed(pieces: AsyncIterator[bytes]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
