"""Replays recorded flows on a control plane with Allotment's controllers and scheduler, and compares the resulting
objects.

A flow is a list of steps; after some of them the recording contains the pods, claims and events of the flow's
namespace, and since 1.37 its Jobs, groups, taint rules and requests for the state of pools. The states are compared
(:mod:`~tests.vectors.apiserver.flow_views`), and messages (:mod:`~tests.vectors.apiserver.flow_messages`). The requests
of a step are in the recording since 1.37; before, steps with only a description are translated by
:mod:`~tests.vectors.apiserver.step_requests`. Here the control plane is a new lab's; ``tests.kube.flows`` uses another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.model.trees import Tree
from tests.vectors.apiserver import flow_views
from tests.vectors.apiserver.comparison import body_difference, difference
from tests.vectors.apiserver.flow_messages import missing_message
from tests.vectors.apiserver.recorded_servers import RecordedServer
from tests.vectors.apiserver.recording import FIXTURES, Row, rows
from tests.vectors.apiserver.replay_lab import SPEED, ReplayLab
from tests.vectors.apiserver.requests import ADMIN
from tests.vectors.apiserver.step_requests import StepRequest, from_recording, step_requests
from tests.vectors.result import Result

_PARALLEL = 6
#: A scheduler may wait a little before it retries or reports.
_REST_SECONDS = 0.12
#: A flow that depends on time is replayed again when the machine paused for this long meanwhile.
_PAUSE_SECONDS = 0.3
_MAX_ATTEMPTS = 3
_BEAT_SECONDS = 0.02
#: Cluster-scoped kinds that flows create, and the plural names of kinds.
_CLUSTER = {
    "ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses", "DeviceTaintRule": "devicetaintrules",
    "Namespace": "namespaces", "Node": "nodes", "PriorityClass": "priorityclasses",
    "ResourcePoolStatusRequest": "resourcepoolstatusrequests",
}  # fmt: skip
_NAMESPACED = {
    "Pod": "pods", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates", "Job": "jobs",
    "ConfigMap": "configmaps", "Deployment": "deployments", "StatefulSet": "statefulsets", "PodGroup": "podgroups",
    "Workload": "workloads", "CompositePodGroup": "compositepodgroups",
}  # fmt: skip


T = TypeVar("T")


class ControlPlane(Protocol):
    """A control plane with the initial objects of the recordings: nodes, classes, slices."""

    #: Time limit for the result of a step; events are written with delay.
    timeout_seconds: float
    #: Whether the first of several equal pods that are created at the same time is random.
    random_order: bool
    #: How much faster its clock runs than real time.
    speed: float

    async def request(self, request: Request) -> AnyResponse: ...

    async def settle(self, rest: float = ...) -> None:
        """Wait until nothing has changed for ``rest`` seconds."""
        ...


async def replay(flows: Sequence[Row], server: RecordedServer) -> list[Result]:
    """Replay every flow in a new lab; some in parallel, since most of a flow is waiting."""
    gate = asyncio.Semaphore(_PARALLEL)

    async def replay_one(flow: Row) -> Result:
        async with gate:
            timed = _timed(flow)
            for _ in range(_MAX_ATTEMPTS):
                async with _loop_delays() as gaps:
                    found = await _outcome(flow, server, timed)
                if not found:
                    break
                # A flow that depends on time is inconclusive where the machine itself paused meanwhile.
                if timed and max(gaps, default=0.0) <= _PAUSE_SECONDS:
                    break
                # Some snapshots show a moment at which controllers are not done.
                if not timed and not _has_requests(flow):
                    break
                timed = True
        return Result(flow["flow"], not found, found)

    return list(await asyncio.gather(*map(replay_one, flows)))


@contextlib.asynccontextmanager
async def _loop_delays() -> AsyncIterator[list[float]]:
    """The delays by which the event loop was late."""
    gaps: list[float] = []

    async def beat() -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(_BEAT_SECONDS)
            gaps.append(loop.time() - before - _BEAT_SECONDS)

    beating = asyncio.create_task(beat())
    try:
        yield gaps
    finally:
        beating.cancel()


def _timed(flow: Row) -> bool:
    return "tolerationSeconds" in json.dumps(flow["steps"])


def _has_requests(flow: Row) -> bool:
    """Whether the steps are recorded with their requests, and so with exact times."""
    return any("requests" in step or "then" in step or "path" in step for step in flow["steps"])


async def _outcome(flow: Row, server: RecordedServer, timed: bool) -> str:
    try:
        return await _flow(flow, server, timed)
    except Exception as error:  # noqa: BLE001 - a flow that cannot be replayed is counted as failed
        return f"cannot be replayed: {type(error).__name__}: {error}"


async def _flow(flow: Row, server: RecordedServer, timed: bool) -> str:
    # A flow that depends on time runs at normal speed; all others run faster.
    async with ReplayLab.started(server, speed=1.0 if timed else SPEED) as lab:
        for row in rows(FIXTURES):
            recorded = row["request"]
            await send(lab, StepRequest(recorded["method"], recorded["path"], recorded["body"]))
        return await replay_flow(lab, flow, timed=timed)


async def replay_flow(plane: ControlPlane, flow: Row, *, timed: bool | None = None) -> str:
    """Replay one flow, step by step, in a new namespace; return the first difference, or an empty string.

    ``timed``: compare at the recorded moments; by default if the flow depends on time.
    """
    timed, namespace, steps = _timed(flow) if timed is None else timed, flow["namespace"], flow["steps"]
    loop = asyncio.get_running_loop()
    await send(plane, StepRequest("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, **_labels(flow)}}))
    await plane.settle()
    last = max((index for index, step in enumerate(steps) if step["do"] == "create"), default=-1)
    for index, step in enumerate(steps):
        began = loop.time()
        for step_request in _created(step, namespace) if "object" in step else step_requests(flow, index):
            refusal = await send(plane, step_request, wanted=step_request.code or step.get("code"))
            if refusal:
                return f"step {step['do']}: {refusal}"
        snapshots = _snapshots_after(flow, index)
        if step["do"] == "create" and index != last and not snapshots:
            # At the recorded intervals: a pod of high priority that is created later would come too late.
            await asyncio.sleep(steps[index + 1]["t"] - step["t"])
            continue
        if timed and (step["do"] != "create" or _has_requests(flow)):
            moment = began + max((snapshot["t"] for snapshot in snapshots), default=step["t"]) - step["t"]
            await asyncio.sleep(max(moment - loop.time(), 0))
        await plane.settle(_REST_SECONDS)
        for snapshot in snapshots:
            found = await _wait_for_state(plane, flow, snapshot)
            if found:
                return f"after {step['do']!r}: {found}"
    return ""


def _snapshots_after(flow: Row, index: int) -> list[Tree]:
    """The snapshots that were taken after a step and before the next one."""
    start = flow["steps"][index]["t"]
    end = flow["steps"][index + 1]["t"] if index + 1 < len(flow["steps"]) else float("inf")
    return [snapshot for snapshot in flow["snapshots"] if start < snapshot["t"] <= end]


def _labels(flow: Row) -> Tree:
    """The labels of the namespace; admin access requires one."""
    if "labels" in flow:
        return {"labels": flow["labels"]}
    needs_admin = any("adminAccess" in json.dumps(step.get("object", {})) for step in flow["steps"])
    return {"labels": {"resource.kubernetes.io/admin-access": "true"}} if needs_admin else {}


def _created(step: Tree, namespace: str) -> list[StepRequest]:
    path = step.get("path") or path_of(step["object"], namespace)
    return [
        StepRequest("POST", path, step["object"], answer=step.get("answer")),
        *map(from_recording, step.get("then") or ()),
    ]


def path_of(tree: Tree, namespace: str) -> str:
    """The collection in which an object is created."""
    return collection_of(tree["apiVersion"], tree["kind"], namespace)


def collection_of(version: str, kind: str, namespace: str) -> str:
    """The path of the objects of a kind; raises LookupError for a kind that flows do not use."""
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in _CLUSTER:
        return f"{root}/{_CLUSTER[kind]}"
    return f"{root}/namespaces/{namespace}/{_NAMESPACED[kind]}"


async def send(plane: ControlPlane, step_request: StepRequest, wanted: int | None = None) -> str:
    """Send a request, or wait; return the error if the answer is not as expected."""
    if step_request.wait_seconds:
        await plane.settle(_REST_SECONDS)
        await asyncio.sleep(step_request.wait_seconds / plane.speed)
        return ""
    path, _, query = step_request.path.partition("?")
    kind = "application/merge-patch+json" if step_request.method == "PATCH" else "application/json"
    headers = {"content-type": step_request.content_type or kind}
    body = b"" if step_request.body is None else json.dumps(step_request.body).encode()
    if step_request.settles:
        await plane.settle()
    answer = await plane.request(Request(step_request.method, path, query, headers, body, ADMIN))
    if not isinstance(answer, Response):
        return f"{step_request.method} {path}: no answer"
    if answer.code >= 400 and (wanted is None or wanted < 400):
        return f"{step_request.method} {path}: {answer.code} {answer.body[:500].decode()}"
    if wanted is not None and wanted >= 400 > answer.code:
        return f"{step_request.method} {path}: expected {wanted}, found {answer.code}"
    if step_request.answer is not None:
        found = body_difference(path, step_request.answer, json.loads(answer.body))
        return f"{step_request.method} {path}: {found}" if found else ""
    return ""


async def _wait_for_state(plane: ControlPlane, flow: Row, snapshot: Tree) -> str:
    """Wait until the recorded state is reached; return the difference at the timeout."""
    loop = asyncio.get_running_loop()
    latest = loop.time() + plane.timeout_seconds
    while True:
        found = await _compared(plane, flow, snapshot)
        if not found or loop.time() > latest:
            return found
        await asyncio.sleep(_REST_SECONDS)


class _State(NamedTuple):
    """The objects of a flow at a moment."""

    pods: list[Tree]
    claims: list[Tree]
    events: list[Tree]
    others: list[Tree]


async def _compared(plane: ControlPlane, flow: Row, snapshot: Tree) -> str:
    namespace = flow["namespace"]
    state = _State(
        await _items(plane, f"/api/v1/namespaces/{namespace}/pods"),
        await _items(plane, f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"),
        await _items(plane, f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
        [tree for version, kind in _other_kinds(flow) for tree in await _of_kind(plane, version, kind, namespace)],
    )
    with_others = "others" in snapshot
    if (plane.random_order or with_others) and (names := _equal_pods(flow)):
        snapshot, state = _nameless(snapshot, names), _State(*_nameless(state, names))
    expected = _views(
        _State(snapshot["pods"], snapshot["resourceclaims"], [], snapshot.get("others") or []), with_others
    )
    found = ""
    for swap in (False, True) if _nodes_are_equal(flow) else (False,):
        shown = _State(*_swapped(state)) if swap else state
        detail = difference(expected, _views(shown, with_others))
        detail = detail or missing_message(snapshot, shown.pods, shown.events, shown.others)
        if not detail:
            return ""
        found = found or detail
    return found


def _views(state: _State, with_others: bool) -> Tree:
    pod = flow_views.pod_with_group if with_others else flow_views.pod
    views = {"pods": flow_views.by_name(state.pods, pod), "claims": flow_views.by_name(state.claims, flow_views.claim)}
    for tree in state.others:
        views.setdefault(tree["kind"], {})
    for kind in views.keys() - {"pods", "claims"}:
        views[kind] = flow_views.by_name([t for t in state.others if t["kind"] == kind], flow_views.other)
    return views


def _other_kinds(flow: Row) -> list[tuple[str, str]]:
    """The kinds of a flow's other objects, with the versions in which they were recorded."""
    trees = (tree for snapshot in flow["snapshots"] for tree in snapshot.get("others") or ())
    return list(dict.fromkeys(map(flow_views.kind_of, trees)))


async def _of_kind(plane: ControlPlane, version: str, kind: str, namespace: str) -> list[Tree]:
    """The objects of a kind; lists do not repeat the kind."""
    items = await _items(plane, collection_of(version, kind, namespace))
    return [{"apiVersion": version, "kind": kind, **tree} for tree in items]


#: Nodes that are equally suitable for a pod with any NVIDIA GPU: the recorded scheduler chose one at random.
_EQUAL = ("a100-node", "t4-node")


def _nodes_are_equal(flow: Row) -> bool:
    """Whether no step of the flow distinguishes the two nodes."""
    text = json.dumps([step.get("object") for step in flow["steps"]])
    return not any(word in text for word in (*_EQUAL, "Ampere", "Turing", "productName", "nodeSelector", "memory"))


def _swapped(trees: T) -> T:
    """The same with the two nodes exchanged."""
    text = json.dumps(trees).replace(_EQUAL[0], "\0").replace(_EQUAL[1], _EQUAL[0]).replace("\0", _EQUAL[1])
    swapped: T = json.loads(text)
    return swapped


def _equal_pods(flow: Row) -> Mapping[str, str]:
    """The pods with equal requests, and the pods of each Job: their names as patterns, and the name that replaces them.

    Which of them is served first is a matter of chance.
    """
    pods: dict[str, list[str]] = {}
    patterns: dict[str, str] = {}
    for tree in _sent(flow):
        if tree.get("kind") == "Pod":
            pods.setdefault(json.dumps(tree["spec"], sort_keys=True), []).append(tree["metadata"]["name"])
        if tree.get("kind") == "Job":
            name = tree["metadata"]["name"]
            patterns[rf"\b{re.escape(name)}-[0-9]+\b"] = f"{name}-ANY"
    groups = [dict.fromkeys(names) for names in pods.values()]
    for number, names in enumerate(names for names in groups if len(names) > 1):
        patterns[rf"\b(?:{'|'.join(map(re.escape, names))})\b"] = f"ANY{number or ''}"
    return patterns


def _sent(flow: Row) -> Iterable[Tree]:
    """The objects that the steps of a flow create."""
    for step in flow["steps"]:
        if "object" in step:
            yield step["object"]
        for recorded in step.get("requests") or ():
            if recorded.get("method") == "POST" and isinstance(recorded.get("body"), dict):
                yield recorded["body"]


def _nameless(trees: T, names: Mapping[str, str]) -> T:
    """The same without the parts that distinguish these pods."""
    text = json.dumps(trees)
    for pattern, replacement in names.items():
        text = re.sub(pattern, replacement, text)
    masked_trees: T = json.loads(text)
    return masked_trees


async def _items(plane: ControlPlane, path: str) -> list[Tree]:
    answer = await plane.request(Request("GET", path, "", {}, b"", ADMIN))
    assert isinstance(answer, Response)
    if answer.code != 200:
        raise LookupError(f"GET {path}: {answer.code} {answer.body[:300].decode(errors='replace')}")
    items: list[Tree] = json.loads(answer.body)["items"]
    return items
