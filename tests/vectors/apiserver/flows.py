"""Replays recorded flows on a control plane with our controllers and scheduler, and compares what objects became.

A flow is a list of steps; after some of them the recording holds the pods, claims and events of the flow's namespace.
Compared are the states: where pods went, their conditions' types, statuses and reasons, what claims were given and for
whom they are reserved. Messages may say more than the recorded ones. Steps that tell only what was done are read from
:mod:`~tests.vectors.apiserver.doings`. Here the control plane is a fresh lab's; ``tests.kube.flows`` has another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeVar

from allotment.apiserver.http_messages import Answer, Request, Response
from allotment.model.trees import Tree
from tests.vectors.apiserver.comparing import difference
from tests.vectors.apiserver.doings import Doing, doings
from tests.vectors.apiserver.masking import masked
from tests.vectors.apiserver.recording import FIXTURES, Row, rows
from tests.vectors.apiserver.requests import ADMIN
from tests.vectors.apiserver.world import SPEED, World
from tests.vectors.result import Result

_AT_ONCE = 6
#: A scheduler may wait a little before it tries again or tells.
_REST_SECONDS = 0.12
#: A flow in which things last some seconds is played again when the machine stood still for so long meanwhile.
_STOOD_STILL_SECONDS = 0.3
_MOST_TRIES = 3
_BEAT_SECONDS = 0.02
#: Kinds without a namespace that flows create, and how paths name kinds.
_CLUSTER = {
    "ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses", "DeviceTaintRule": "devicetaintrules",
    "Namespace": "namespaces", "Node": "nodes", "PriorityClass": "priorityclasses",
}  # fmt: skip
_NAMESPACED = {
    "Pod": "pods", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates", "Job": "jobs",
    "ConfigMap": "configmaps", "Deployment": "deployments", "StatefulSet": "statefulsets",
}  # fmt: skip


class Place(Protocol):
    """A control plane with what recordings begin with: nodes, classes, slices."""

    #: How long what a step leads to may take; events are written when there is time.
    patience_seconds: float
    #: Whether chance decides which of several pods is first that came at once and ask for the same.
    draws_lots: bool

    async def ask(self, request: Request) -> Answer:
        """One request, answered."""
        ...

    async def settled(self, rest: float = ...) -> None:
        """Wait until nothing has changed for so long."""
        ...


async def replayed(flows: list[Row]) -> list[Result]:
    """Every flow, each in a fresh lab; some at once, since most of a flow is waiting."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(flow: Row) -> Result:
        async with gate:
            for _ in range(_MOST_TRIES):
                async with _pulse() as gaps:
                    found = await _flow(flow)
                # What lasts some seconds tells nothing where the machine itself stood still meanwhile.
                if not (found and _timed(flow) and max(gaps, default=0.0) > _STOOD_STILL_SECONDS):
                    break
        return Result(flow["flow"], not found, found)

    return list(await asyncio.gather(*map(one, flows)))


@contextlib.asynccontextmanager
async def _pulse() -> AsyncIterator[list[float]]:
    """How long the loop did not get to run, each time by more than it should have been."""
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
    # What lasts some seconds is given them; all else runs faster.
    async with World.started(speed=1.0 if _timed(flow) else SPEED) as world:
        for row in rows(FIXTURES):
            asked = row["request"]
            await asked_of(world, Doing(asked["method"], asked["path"], asked["body"]))
        return await played(world, flow)


async def played(place: Place, flow: Row) -> str:
    """One flow, step by step, in a namespace that is not there yet; how the first difference looks, or nothing."""
    timed, namespace = _timed(flow), flow["namespace"]
    await asked_of(place, Doing("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, **_labels(flow)}}))
    await place.settled()
    last = max((index for index, step in enumerate(flow["steps"]) if step["do"] == "create"), default=-1)
    for index, step in enumerate(flow["steps"]):
        for doing in _created(step, namespace) if "object" in step else doings(flow, index):
            told = await asked_of(place, doing, wanted=step.get("code"))
            if told:
                return f"step {step['do']}: {told}"
        if step["do"] == "create" and index != last:
            # As far apart as they were recorded: a pod of high priority that comes a moment later comes too late.
            await asyncio.sleep(flow["steps"][index + 1]["t"] - step["t"])
            continue
        if timed and step["do"] != "create":
            taken = [snapshot["t"] for snapshot in flow["snapshots"] if snapshot["after"] == step["do"]]
            await asyncio.sleep(max(taken, default=step["t"]) - step["t"])
        await place.settled(_REST_SECONDS)
        for snapshot in flow["snapshots"]:
            if snapshot["after"] == step["do"]:
                found = await _reached(place, flow, snapshot)
                if found:
                    return f"after {step['do']!r}: {found}"
    return ""


def _labels(flow: Row) -> Tree:
    """Admin access is for namespaces that say so."""
    asks = any("adminAccess" in json.dumps(step.get("object", {})) for step in flow["steps"])
    return {"labels": {"resource.kubernetes.io/admin-access": "true"}} if asks else {}


def _created(step: Tree, namespace: str) -> list[Doing]:
    return [Doing("POST", path_of(step["object"], namespace), step["object"])]


def path_of(tree: Tree, namespace: str) -> str:
    """The collection that an object is created in."""
    version = tree["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if tree["kind"] in _CLUSTER:
        return f"{root}/{_CLUSTER[tree['kind']]}"
    return f"{root}/namespaces/{namespace}/{_NAMESPACED[tree['kind']]}"


async def asked_of(place: Place, doing: Doing, wanted: int | None = None) -> str:
    """Do something; how it was refused though it was not to be, or nothing."""
    path, _, query = doing.path.partition("?")
    kind = "application/merge-patch+json" if doing.method == "PATCH" else "application/json"
    body = b"" if doing.body is None else json.dumps(doing.body).encode()
    if doing.settles:
        await place.settled()
    answer = await place.ask(Request(doing.method, path, query, {"content-type": kind}, body, ADMIN))
    if not isinstance(answer, Response):
        return f"{doing.method} {path}: no answer"
    if answer.code >= 400 and (wanted is None or wanted < 400):
        return f"{doing.method} {path}: {answer.code} {answer.body[:500].decode()}"
    return ""


async def _reached(place: Place, flow: Row, snapshot: Tree) -> str:
    """How what came to be differs."""
    loop = asyncio.get_running_loop()
    latest = loop.time() + place.patience_seconds
    while True:
        found = await _compared(place, flow, snapshot)
        if not found or loop.time() > latest:
            return found
        await asyncio.sleep(_REST_SECONDS)


async def _compared(place: Place, flow: Row, snapshot: Tree) -> str:
    namespace = flow["namespace"]
    pods = await _items(place, f"/api/v1/namespaces/{namespace}/pods")
    claims = await _items(place, f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
    events = await _items(place, f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    if place.draws_lots and (alike := _alike(flow)):
        snapshot = _nameless(snapshot, alike)
        pods, claims, events = (_nameless(trees, alike) for trees in (pods, claims, events))
    wanted = {"pods": _by_name(snapshot["pods"], _pod), "claims": _by_name(snapshot["resourceclaims"], _claim)}
    found = ""
    for swap in (False, True) if _either(flow) else (False,):
        mine, theirs, said = (_swapped(trees) if swap else trees for trees in (pods, claims, events))
        ours = {"pods": _by_name(mine, _pod), "claims": _by_name(theirs, _claim)}
        told = difference(wanted, ours) or _said_less(snapshot, mine, said)
        if not told:
            return ""
        found = found or told
    return found


#: Nodes that are equally good for a pod that any NVIDIA GPU will do: the recorded scheduler drew lots among them.
_EQUAL = ("a100-node", "t4-node")


def _either(flow: Row) -> bool:
    """Whether nothing in the flow tells the two nodes apart."""
    text = json.dumps([step.get("object") for step in flow["steps"]])
    return not any(word in text for word in (*_EQUAL, "Ampere", "Turing", "productName", "nodeSelector", "memory"))


def _swapped(trees: list[Tree]) -> list[Tree]:
    """The same with the two nodes exchanged."""
    text = json.dumps(trees).replace(_EQUAL[0], "\0").replace(_EQUAL[1], _EQUAL[0]).replace("\0", _EQUAL[1])
    swapped: list[Tree] = json.loads(text)
    return swapped


def _alike(flow: Row) -> list[str]:
    """Pods of a flow that ask for the same; none if there is but one."""
    created = [step["object"] for step in flow["steps"] if step.get("object", {}).get("kind") == "Pod"]
    names = [pod["metadata"]["name"] for pod in created if pod["spec"] == created[0]["spec"]]
    return names if len(names) > 1 else []


T = TypeVar("T")


def _nameless(trees: T, names: list[str]) -> T:
    """The same without what tells these pods apart."""
    told: T = json.loads(re.sub(rf"\b({'|'.join(map(re.escape, names))})\b", "ANY", json.dumps(trees)))
    return told


async def _items(place: Place, path: str) -> list[Tree]:
    answer = await place.ask(Request("GET", path, "", {}, b"", ADMIN))
    assert isinstance(answer, Response)
    items: list[Tree] = json.loads(answer.body)["items"]
    return items


def _by_name(items: list[Tree], view: Any) -> Tree:
    """Views by masked name; of generated names, in the order of what they show."""
    views: dict[str, list[Any]] = {}
    for item in items:
        views.setdefault(masked(item["metadata"]["name"]), []).append(view(item))
    return {name: sorted(found, key=lambda one: json.dumps(one, sort_keys=True)) for name, found in views.items()}


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
    """Pods that came together are reserved for in the order in which the binding ended."""
    if "reservedFor" not in status:
        return status
    return {**status, "reservedFor": sorted(status["reservedFor"], key=lambda user: str(user["name"]))}


def _said_less(snapshot: Tree, pods: list[Tree], events: list[Tree]) -> str:
    """Which recorded sentence is in none of ours."""
    said: dict[str, list[str]] = {}
    for pod in pods:
        said.setdefault(pod["metadata"]["name"], []).extend(_messages(pod))
    for pod in snapshot["pods"]:
        for message in _messages(pod):
            if not any(message in ours for ours in said.get(pod["metadata"]["name"], ())):
                return f"pod {pod['metadata']['name']}: {message!r} is not said in {said.get(pod['metadata']['name'])}"
    told = [(e.get("type"), e.get("reason"), masked(e.get("note") or "")) for e in events]
    for event in snapshot["events"]:
        if "in the process of being allocated" in (event.get("note") or ""):
            continue  # two pods met at one claim; here they need not
        kind, reason, note = event["type"], event["reason"], masked(event.get("note") or "")
        if not any((k, r) == (kind, reason) and note in n for k, r, n in told):
            return f"event {kind} {reason} {note!r} is not among {told}"
    return ""


def _messages(pod: Tree) -> list[str]:
    return [
        masked(condition["message"])
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if condition.get("message")
    ]
