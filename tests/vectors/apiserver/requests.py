"""Replays recorded requests in a new lab, one after another, and compares each answer.

Requests are sent as the recorder sent them: as a member of system:masters, who may impersonate any user.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from allotment.apiserver.http_messages import Peer, Request, Response, Streaming
from tests.vectors.apiserver.comparison import answer_difference, body_difference
from tests.vectors.apiserver.masking import Correspondence, body_of
from tests.vectors.apiserver.recorded_servers import RecordedServer
from tests.vectors.apiserver.recording import FIXTURES, Row, in_order, rows
from tests.vectors.apiserver.replay_lab import ReplayLab
from tests.vectors.apiserver.watch_writes import Write, writes
from tests.vectors.result import Result

#: A member of system:masters: the user of rows that name none.
ADMIN = Peer("recorder", ("system:masters",))
#: A watch that the recorded server did not end is read until its events arrived, for at most this many seconds.
TIMEOUT_SECONDS = 60.0
#: How often a read is retried when the result is not as expected yet.
_MAX_READS = 40
#: The namespace in a path, and whether it names an object in it.
_NAMESPACE = re.compile(r"/apis?/(?:[^?]*?/)?namespaces/([^/?]+)/[^/?]+(/[^?])?")
#: The namespaces that every server has.
_OWN = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
EXPIRED = "29-expired"
_PENDING_CLAIM = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}  # fmt: skip
_HELM_SECRET = {"metadata": {"name": "sh.helm.release.v1.z2.v1"}, "type": "helm.sh/release.v1"}
#: The state before a row that was created by requests which are not in the recording.
_EARLIER_REQUESTS: Mapping[tuple[str, int], tuple[Write, ...]] = {
    ("24-watch", 21): (
        Write("POST", "/api/v1/namespaces", {"metadata": {"name": "ssa"}}),
        Write("APPLY", "/apis/resource.k8s.io/v1/namespaces/ssa/resourceclaims/c?fieldManager=m1", _PENDING_CLAIM),
    ),
    ("25-tables", 8): tuple(
        Write("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for name in ("crud", "lists", "patch", "ssa", "watch")
    ),
    ("25-tables", 15): (
        Write("PATCH", "/apis/resource.k8s.io/v1/deviceclasses/gpu.amd.com", {"metadata": {"annotations": {"x": "1"}}}),
    ),
    ("28-protobuf-requests", 10): (
        Write("POST", "/api/v1/namespaces/pby/serviceaccounts", {"metadata": {"name": "bot"}}),
    ),
    ("28-protobuf-requests", 20): (Write("POST", "/api/v1/namespaces/pby/secrets?fieldManager=Helm", _HELM_SECRET),),
}
_SIDECAR = {"name": "side", "image": "s1"}
_TEMPLATE = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [_SIDECAR]}}
#: Request bodies that were recorded wrong: the recorder changed the object for its next request before it wrote this
#: one. The answer shows the body that was sent.
_SENT: Mapping[tuple[str, int], Any] = {
    ("23-server-side-apply", 19): {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": _TEMPLATE},
    },
}  # fmt: skip
#: The user agents of requests whose answers contain managed fields, because the recording lacks the headers.
_AGENTS: Mapping[str, Callable[[str], str]] = {
    "28-protobuf-requests": lambda name: "Helm/4.1.4" if name.startswith("helm") else "kubectl/v1.35.2"
}


async def replay(scored: Sequence[Row], server: RecordedServer) -> list[Result]:
    """Replay every scored row, in a new lab per scenario."""
    results: list[Result] = []
    marked = in_order(scored)
    for scenario in dict.fromkeys(row["scenario"] for row, _ in marked):
        entries = [entry for entry in marked if entry[0]["scenario"] == scenario]
        try:
            results += [result async for result in _replay_scenario(scenario, entries, server)]
        except Exception as error:  # noqa: BLE001 - the other scenarios of the file are still scored
            done = {result.name for result in results}
            names = (_name(row) for row, counts in entries if counts)
            reason = f"the scenario cannot be replayed: {type(error).__name__}: {error}"
            results += [Result(name, False, reason) for name in names if name not in done]
    return results


async def _replay_scenario(
    scenario: str, entries: Sequence[tuple[Row, bool]], server: RecordedServer
) -> AsyncIterator[Result]:
    async with ReplayLab.started(server) as lab:
        replay = _Replay(lab)
        if scenario != "00-fixtures":
            await replay.prepare([row for row, _ in entries])
        for row, counts in entries:
            found = await replay.outcome(row)
            if counts:
                yield Result(_name(row), not found, found)


def _name(row: Row) -> str:
    return f"{row['scenario']}#{row['seq']} {row['name']}"


def _metadata_name(message: Mapping[str, Any]) -> str:
    body = message.get("body")
    return str((body.get("metadata") or {}).get("name") or "") if isinstance(body, dict) else ""


def missing_namespaces(entries: Iterable[Row]) -> list[str]:
    """The namespaces that a scenario uses and does not create: another one of the recording did."""
    created, missing = set(_OWN), dict[str, None]()
    for row in entries:
        sent, answer = row["request"], row["response"]
        method, path, code = sent.get("method", ""), str(sent.get("path", "")), answer.get("code", 0)
        if method == "POST" and path.partition("?")[0] == "/api/v1/namespaces":
            name = _metadata_name(sent) or _metadata_name(answer)
            if not name:  # a body in protobuf
                break
            created.add(name)
        found = _NAMESPACE.match(path)
        # In a namespace that does not exist, writes are refused with 404 and so are reads of one object; lists are not.
        exists = code < 500 and code not in (401, 403, 404, 405)
        if found and found[1] not in created and exists and (found[2] or method not in ("GET", "DELETE")):
            missing[found[1]] = None
    return list(missing)


class _Replay:
    def __init__(self, lab: ReplayLab) -> None:
        self.lab = lab
        self.known = Correspondence()

    async def prepare(self, entries: Sequence[Row]) -> None:
        """Create the objects with which every recording starts, and namespaces of other scenarios."""
        for row in rows(FIXTURES):
            await self.row(row)
        for name in missing_namespaces(entries):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.request("POST", "/api/v1/namespaces", body)
            await self.lab.settle()

    async def outcome(self, row: Row) -> str:
        """Replay a row with the requests that the recording lacks; return the difference, or why there is none."""
        try:
            if row["scenario"] == EXPIRED:
                await self.expire(row)
            for write in _EARLIER_REQUESTS.get((row["scenario"], row["seq"]), ()):
                await self.request(write.method, write.path, write.body, exists=True)
            return await self.row(row)
        except Exception as error:  # noqa: BLE001 - a row that cannot be replayed is counted as failed
            return f"cannot be replayed: {type(error).__name__}: {error}"

    async def expire(self, row: Row) -> None:
        """The recorded server had been restarted and its history compacted at these rows."""
        configmaps = "/api/v1/namespaces/default/configmaps"
        if row["seq"] == 0:
            for name in ("c1", "c2", "c3"):
                await self.request("POST", configmaps, {"metadata": {"name": name}})
            await self.lab.settle()
        if row["seq"] == 1:
            self.lab.store.compact(self.lab.store.revision)
        if row["name"].startswith("list NotOlderThan"):
            await self.request("PUT", f"{configmaps}/c1", {"metadata": {"name": "c1"}, "data": {"x": "2"}})

    async def request(self, method: str, path: str, body: Any = None, *, exists: bool = False) -> None:
        """Send a request that is not in the recording; ``exists``: the created object may exist already."""
        path, _, query = path.partition("?")
        kind = {"APPLY": "application/apply-patch+yaml", "PATCH": "application/merge-patch+json"}
        headers = {"content-type": kind.get(method, "application/json")}
        sent = b"" if body is None else json.dumps(body).encode()
        verb = "PATCH" if method == "APPLY" else method
        answer = await self.lab.request(Request(verb, path, query, headers, sent, ADMIN))
        assert isinstance(answer, Response), f"{method} {path}: {answer}"
        assert answer.code < 400 or (exists and answer.code == 409), f"{method} {path}: {answer.body.decode()}"

    async def row(self, row: Row) -> str:
        """Replay a row; return the difference of the answer."""
        sent_request, recorded = row["request"], row["response"]
        path, _, query = self.known.text(sent_request["path"]).partition("?")
        headers = {
            name.lower(): self.known.text(", ".join(value) if isinstance(value, list) else value)
            for name, value in (sent_request.get("headers") or {}).items()
        }
        if agent := _AGENTS.get(row["scenario"]):
            headers.setdefault("user-agent", agent(row["name"]))
        sent = _SENT.get((row["scenario"], row["seq"]), sent_request.get("body"))
        body = body_of(sent_request if sent is None else {"body": self.known.tree(sent)})
        user = sent_request.get("user")
        if user not in (None, "(none)"):
            headers.setdefault("impersonate-user", user)
        peer = None if user == "(none)" or "authorization" in headers else ADMIN
        request = Request(sent_request["method"], path, query, headers, body, peer)
        before = self.lab.store.revision
        answer = await self.lab.request(request)
        for _ in range(_MAX_READS):  # controllers may write it a moment later
            if sent_request["method"] != "GET" or not isinstance(answer, Response) or answer.code != 200:
                break
            if not self._difference(row, answer):
                break
            await asyncio.sleep(0.05)
            answer = await self.lab.request(request)
        if isinstance(answer, Streaming):
            if "stream" not in recorded:
                await _closed(answer.pieces)
                return f"expected {recorded['code']} {str(recorded.get('body'))[:300]}, found a stream"
            return await self.stream(row, answer)
        if not isinstance(answer, Response):
            return f"expected code {recorded['code']}, found an upgrade"
        if "stream" in recorded:
            expected = [event for event in recorded["stream"] if "text" not in event]
            if answer.code != recorded["code"] or any("type" in event for event in expected):
                return f"expected {recorded['code']} and a stream, found {answer.code}: {answer.body[:300]!r}"
            return body_difference(sent_request["path"], expected, [_decoded(answer)]) if expected else ""
        actual = _joined(answer.headers)
        if isinstance(recorded.get("body"), dict):
            self.known.learn(recorded["body"], _decoded(answer))
        if (etag := actual.get("etag")) and "etag" in (recorded.get("headers") or {}):
            self.known.values[recorded["headers"]["etag"]] = etag
            self.known.values[recorded["headers"]["etag"].strip('"')] = etag.strip('"')
        if self.lab.store.revision != before:
            await self.lab.settle()
        return self._difference(row, answer)

    def _difference(self, row: Row, answer: Response) -> str:
        path, headers = row["request"]["path"], _joined(answer.headers)
        return answer_difference(path, row["response"], answer.code, headers, answer.body)

    async def stream(self, row: Row, answer: Streaming) -> str:
        recorded = row["response"]
        if recorded["code"] != answer.code:
            await _closed(answer.pieces)
            return f"expected code {recorded['code']}, found {answer.code}"
        events: list[Any] = []
        expected = [event for event in recorded["stream"] if event.get("type") != "BOOKMARK" or _ends_initial(event)]
        closes = bool(recorded.get("server_closed")) and "timeoutSeconds" in row["request"]["path"]

        async def read() -> None:
            rest = b""
            async for piece in answer.pieces:
                *lines, rest = (rest + piece).split(b"\n")
                events.extend(json.loads(line) for line in lines if line)
                if not closes and len(events) >= len(expected):
                    return

        reading = asyncio.create_task(read())
        if "timeoutSeconds" not in row["request"]["path"]:
            for _ in range(50):  # iterations, until the watch has started
                await asyncio.sleep(0)
            for write in writes(row, len(events)):
                await self.request(write.method, write.path, self.known.tree(write.body), exists=True)
                await self.lab.settle()
        try:
            await asyncio.wait_for(reading, TIMEOUT_SECONDS + 2 if closes else TIMEOUT_SECONDS)
        except TimeoutError:
            if closes:
                return f"the watch was not ended; events: {json.dumps(events)[:500]}"
        finally:
            await _closed(answer.pieces)
        actual = [event for event in events if event.get("type") != "BOOKMARK" or _ends_initial(event)]
        self.known.learn(expected, actual)
        return body_difference(row["request"]["path"], {"events": expected}, {"events": actual})


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case name; the values of a repeated one are joined, as in the recordings."""
    result: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        result[key] = f"{result[key]}, {value}" if key in result else value
    return result


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
