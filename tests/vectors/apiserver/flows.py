"""Replays recorded flows on a control plane with Allotment's controllers and scheduler, and compares the resulting
objects.

A flow is a list of steps; after some of them the recording contains the pods, claims and events of the flow's
namespace. The states are compared: nodes of pods, their conditions' types, statuses and reasons, allocations of claims
and their reservations. Messages may say more than the recorded ones. Steps with only a description are translated by
:mod:`~tests.vectors.apiserver.step_requests`. Here the control plane is a new lab's; ``tests.kube.flows`` uses another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeVar

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.model.trees import Tree
from tests.vectors.apiserver.comparison import difference
from tests.vectors.apiserver.masking import masked
from tests.vectors.apiserver.recording import FIXTURES, Row, rows
from tests.vectors.apiserver.replay_lab import SPEED, ReplayLab
from tests.vectors.apiserver.requests import ADMIN
from tests.vectors.apiserver.step_requests import StepRequest, step_requests
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
}  # fmt: skip
_NAMESPACED = {
    "Pod": "pods", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates", "Job": "jobs",
    "ConfigMap": "configmaps", "Deployment": "deployments", "StatefulSet": "statefulsets",
}  # fmt: skip


class ControlPlane(Protocol):
    """A control plane with the initial objects of the recordings: nodes, classes, slices."""

    #: Time limit for the result of a step; events are written with delay.
    timeout_seconds: float
    #: Whether the first of several equal pods that are created at the same time is random.
    random_order: bool

    async def request(self, request: Request) -> AnyResponse: ...

    async def settle(self, rest: float = ...) -> None:
        """Wait until nothing has changed for ``rest`` seconds."""
        ...


async def replay(flows: list[Row]) -> list[Result]:
    """Replay every flow in a new lab; some in parallel, since most of a flow is waiting."""
    gate = asyncio.Semaphore(_PARALLEL)

    async def replay_one(flow: Row) -> Result:
        async with gate:
            for _ in range(_MAX_ATTEMPTS):
                async with _loop_delays() as gaps:
                    found = await _flow(flow)
                # A flow that depends on time is inconclusive where the machine itself paused meanwhile.
                if not (found and _timed(flow) and max(gaps, default=0.0) > _PAUSE_SECONDS):
                    break
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


async def _flow(flow: Row) -> str:
    # A flow that depends on time runs at normal speed; all others run faster.
    async with ReplayLab.started(speed=1.0 if _timed(flow) else SPEED) as lab:
        for row in rows(FIXTURES):
            recorded = row["request"]
            await send(lab, StepRequest(recorded["method"], recorded["path"], recorded["body"]))
        return await replay_flow(lab, flow)


async def replay_flow(plane: ControlPlane, flow: Row) -> str:
    """Replay one flow, step by step, in a new namespace; return the first difference, or an empty string."""
    timed, namespace = _timed(flow), flow["namespace"]
    await send(plane, StepRequest("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, **_labels(flow)}}))
    await plane.settle()
    last = max((index for index, step in enumerate(flow["steps"]) if step["do"] == "create"), default=-1)
    for index, step in enumerate(flow["steps"]):
        for step_request in _created(step, namespace) if "object" in step else step_requests(flow, index):
            refusal = await send(plane, step_request, wanted=step.get("code"))
            if refusal:
                return f"step {step['do']}: {refusal}"
        if step["do"] == "create" and index != last:
            # At the recorded intervals: a pod of high priority that is created later would come too late.
            await asyncio.sleep(flow["steps"][index + 1]["t"] - step["t"])
            continue
        if timed and step["do"] != "create":
            taken = [snapshot["t"] for snapshot in flow["snapshots"] if snapshot["after"] == step["do"]]
            await asyncio.sleep(max(taken, default=step["t"]) - step["t"])
        await plane.settle(_REST_SECONDS)
        for snapshot in flow["snapshots"]:
            if snapshot["after"] == step["do"]:
                found = await _wait_for_state(plane, flow, snapshot)
                if found:
                    return f"after {step['do']!r}: {found}"
    return ""


def _labels(flow: Row) -> Tree:
    """Admin access requires a label of the namespace."""
    needs_admin = any("adminAccess" in json.dumps(step.get("object", {})) for step in flow["steps"])
    return {"labels": {"resource.kubernetes.io/admin-access": "true"}} if needs_admin else {}


def _created(step: Tree, namespace: str) -> list[StepRequest]:
    return [StepRequest("POST", path_of(step["object"], namespace), step["object"])]


def path_of(tree: Tree, namespace: str) -> str:
    """The collection in which an object is created."""
    version = tree["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if tree["kind"] in _CLUSTER:
        return f"{root}/{_CLUSTER[tree['kind']]}"
    return f"{root}/namespaces/{namespace}/{_NAMESPACED[tree['kind']]}"


async def send(plane: ControlPlane, step_request: StepRequest, wanted: int | None = None) -> str:
    """Send a request; return its error if it was rejected unexpectedly."""
    path, _, query = step_request.path.partition("?")
    kind = "application/merge-patch+json" if step_request.method == "PATCH" else "application/json"
    body = b"" if step_request.body is None else json.dumps(step_request.body).encode()
    if step_request.settles:
        await plane.settle()
    answer = await plane.request(Request(step_request.method, path, query, {"content-type": kind}, body, ADMIN))
    if not isinstance(answer, Response):
        return f"{step_request.method} {path}: no answer"
    if answer.code >= 400 and (wanted is None or wanted < 400):
        return f"{step_request.method} {path}: {answer.code} {answer.body[:500].decode()}"
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


async def _compared(plane: ControlPlane, flow: Row, snapshot: Tree) -> str:
    namespace = flow["namespace"]
    pods = await _items(plane, f"/api/v1/namespaces/{namespace}/pods")
    claims = await _items(plane, f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
    events = await _items(plane, f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    if plane.random_order and (equal := _equal_pods(flow)):
        snapshot = _nameless(snapshot, equal)
        pods, claims, events = (_nameless(trees, equal) for trees in (pods, claims, events))
    expected = {"pods": _by_name(snapshot["pods"], _pod), "claims": _by_name(snapshot["resourceclaims"], _claim)}
    found = ""
    for swap in (False, True) if _nodes_are_equal(flow) else (False,):
        pods_, claims_, events_ = (_swapped(trees) if swap else trees for trees in (pods, claims, events))
        actual = {"pods": _by_name(pods_, _pod), "claims": _by_name(claims_, _claim)}
        detail = difference(expected, actual) or _missing_message(snapshot, pods_, events_)
        if not detail:
            return ""
        found = found or detail
    return found


#: Nodes that are equally suitable for a pod with any NVIDIA GPU: the recorded scheduler chose one at random.
_EQUAL = ("a100-node", "t4-node")


def _nodes_are_equal(flow: Row) -> bool:
    """Whether no step of the flow distinguishes the two nodes."""
    text = json.dumps([step.get("object") for step in flow["steps"]])
    return not any(word in text for word in (*_EQUAL, "Ampere", "Turing", "productName", "nodeSelector", "memory"))


def _swapped(trees: list[Tree]) -> list[Tree]:
    """The same with the two nodes exchanged."""
    text = json.dumps(trees).replace(_EQUAL[0], "\0").replace(_EQUAL[1], _EQUAL[0]).replace("\0", _EQUAL[1])
    swapped: list[Tree] = json.loads(text)
    return swapped


def _equal_pods(flow: Row) -> list[str]:
    """Pods of a flow with equal requests; none if there is only one."""
    created = [step["object"] for step in flow["steps"] if step.get("object", {}).get("kind") == "Pod"]
    names = [pod["metadata"]["name"] for pod in created if pod["spec"] == created[0]["spec"]]
    return names if len(names) > 1 else []


T = TypeVar("T")


def _nameless(trees: T, names: list[str]) -> T:
    """The same without the parts that distinguish these pods."""
    masked_trees: T = json.loads(re.sub(rf"\b({'|'.join(map(re.escape, names))})\b", "ANY", json.dumps(trees)))
    return masked_trees


async def _items(plane: ControlPlane, path: str) -> list[Tree]:
    answer = await plane.request(Request("GET", path, "", {}, b"", ADMIN))
    assert isinstance(answer, Response)
    items: list[Tree] = json.loads(answer.body)["items"]
    return items


def _by_name(items: list[Tree], view: Any) -> Tree:
    """Views by masked name; objects with generated names are sorted by their content."""
    views: dict[str, list[Any]] = {}
    for item in items:
        views.setdefault(masked(item["metadata"]["name"]), []).append(view(item))
    return {name: sorted(found, key=lambda view_: json.dumps(view_, sort_keys=True)) for name, found in views.items()}


def _pod(pod: Tree) -> Tree:
    status = pod.get("status") or {}
    view: Tree = masked({
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "terminating": "deletionTimestamp" in pod["metadata"],
        "conditions": {
            condition["type"]: [condition["status"], condition.get("reason")]
            for condition in status.get("conditions") or ()
        },
        "claims": status.get("resourceClaimStatuses"),
        "extended": status.get("extendedResourceClaimStatus"),
        "nominated": status.get("nominatedNodeName"),
    })  # fmt: skip
    return view


def _claim(claim: Tree) -> Tree:
    meta = claim["metadata"]
    view: Tree = masked({
        "annotations": meta.get("annotations"),
        "owners": meta.get("ownerReferences"),
        "finalizers": meta.get("finalizers"),
        "terminating": "deletionTimestamp" in meta,
        "spec": claim.get("spec"),
        "status": _in_order(claim.get("status") or {}),
    })  # fmt: skip
    return view


def _in_order(status: Tree) -> Tree:
    """Pods that were created together are reserved for in the order in which they were bound."""
    if "reservedFor" not in status:
        return status
    return {**status, "reservedFor": sorted(status["reservedFor"], key=lambda user: str(user["name"]))}


def _missing_message(snapshot: Tree, pods: list[Tree], events: list[Tree]) -> str:
    """The first recorded message that Allotment's messages do not contain."""
    messages: dict[str, list[str]] = {}
    for pod in pods:
        messages.setdefault(pod["metadata"]["name"], []).extend(_messages(pod))
    for pod in snapshot["pods"]:
        for message in _messages(pod):
            if not any(message in actual_messages for actual_messages in messages.get(pod["metadata"]["name"], ())):
                return (
                    f"pod {pod['metadata']['name']}: {message!r} is missing in {messages.get(pod['metadata']['name'])}"
                )
    actual = [(e.get("type"), e.get("reason"), masked(e.get("note") or "")) for e in events]
    for event in snapshot["events"]:
        if "in the process of being allocated" in (event.get("note") or ""):
            continue  # two pods used one claim at the same time; here they may not
        kind, reason, note = event["type"], event["reason"], masked(event.get("note") or "")
        if not any((k, r) == (kind, reason) and note in n for k, r, n in actual):
            return f"event {kind} {reason} {note!r} is not among {actual}"
    return ""


def _messages(pod: Tree) -> list[str]:
    return [
        masked(condition["message"])
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if condition.get("message")
    ]
