"""The requests of recorded steps: as recorded since 1.37; before, steps have only a description.

Most can be derived from the timeline of the flow: pods and claims that appear were created, those that vanish deleted.
What the timeline does not show (classes, slices, rules) is in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from allotment.model.trees import Tree

_RESOURCE = "/apis/resource.k8s.io"


class StepRequest(NamedTuple):
    """A request; ``settles`` if the control plane was idle before it. With ``wait_seconds``, a pause and no request.

    ``code`` and ``answer``: the recorded status code and the body of a refusal.
    """

    method: str
    path: str
    body: Any = None
    settles: bool = False
    content_type: str = ""
    wait_seconds: float = 0.0
    code: int | None = None
    answer: Any = None


def from_recording(recorded: Tree) -> StepRequest:
    """A request as it is recorded since 1.37."""
    if "wait" in recorded:
        return StepRequest("", "", wait_seconds=recorded["wait"])
    return StepRequest(
        recorded["method"], recorded["path"], recorded.get("body"), content_type=recorded.get("content-type", ""),
        code=recorded.get("code"), answer=recorded.get("answer"),
    )  # fmt: skip


def step_requests(flow: Tree, index: int) -> Iterator[StepRequest]:
    """The requests of a step without an object."""
    step = flow["steps"][index]
    if "requests" in step:
        yield from map(from_recording, step["requests"])
        return
    known = _KNOWN.get((flow["flow"], step["do"]))
    if known is not None:
        yield from known(flow)
        return
    until = flow["steps"][index + 1]["t"] if index + 1 < len(flow["steps"]) else float("inf")
    yield from _from_timeline(flow, step, until)


def _from_timeline(flow: Tree, step: Tree, until: float) -> Iterator[StepRequest]:
    """From the timeline: the objects that appeared and vanished during the step."""
    namespace = flow["namespace"]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    claims = f"{_RESOURCE}/v1/namespaces/{namespace}/resourceclaims"
    result = step.get("result")
    answer = result.get("body") if isinstance(result, dict) else None
    if isinstance(answer, dict) and answer.get("kind") == "Pod" and "deletionTimestamp" not in answer["metadata"]:
        status = {key: answer["status"][key] for key in ("phase",)}
        ready = [c for c in answer["status"].get("conditions") or () if c["type"] == "Ready"]
        patch = {"status": {**status, **({"conditions": [*ready, *_scheduled(answer)]} if ready else {})}}
        yield StepRequest("PATCH", f"{pods}/{answer['metadata']['name']}/status", patch)
        return
    appeared, gone = [], []
    for entry in flow["timeline"]:
        if not step["t"] - 0.05 <= entry["t"] < until - 0.05 or entry["kind"] not in ("Pod", "ResourceClaim"):
            continue
        meta = entry["object"]["metadata"]
        if entry["type"] == "ADDED" and not meta.get("ownerReferences"):
            appeared.append(entry)
        if (entry["type"] == "DELETED" or "deletionTimestamp" in meta) and not meta.get("ownerReferences"):
            gone.append((entry["kind"], meta["name"]))
    if "delete" in step["do"] or step["do"] in ("free one", "rm"):
        kinds = {answer["kind"]} if isinstance(answer, dict) and "kind" in answer else {"Pod"}
        for kind, name in dict.fromkeys(gone):
            if kind in kinds and kind == "Pod":
                yield StepRequest("DELETE", f"{pods}/{name}?gracePeriodSeconds=0")
            elif kind in kinds:
                yield StepRequest("DELETE", f"{claims}/{name}")
        return
    for entry in sorted(appeared, key=lambda entry: entry["kind"] == "Pod"):
        tree = entry["object"]
        meta = {key: value for key, value in tree["metadata"].items() if key in ("name", "labels", "annotations")}
        body = {**{key: tree[key] for key in ("apiVersion", "kind", "spec") if key in tree}, "metadata": meta}
        yield StepRequest("POST", pods if entry["kind"] == "Pod" else claims, body)


def _scheduled(pod: Tree) -> list[Tree]:
    return [c for c in pod["status"].get("conditions") or () if c["type"] == "PodScheduled"]


def _class(name: str, expression: str) -> StepRequest:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return StepRequest("POST", f"{_RESOURCE}/v1/deviceclasses", {"metadata": {"name": name}, "spec": spec})


def _by_hand(flow: Tree) -> Iterator[StepRequest]:
    """The claim's allocation, as the recording shows it before any pod used it."""
    for entry in flow["timeline"]:
        if entry["kind"] == "ResourceClaim" and (entry["object"].get("status") or {}).get("allocation"):
            name = entry["object"]["metadata"]["name"]
            path = f"{_RESOURCE}/v1/namespaces/{flow['namespace']}/resourceclaims/{name}/status"
            yield StepRequest("PATCH", path, {"status": {"allocation": entry["object"]["status"]["allocation"]}})
            return


def _ready(flow: Tree) -> Iterator[StepRequest]:
    """The driver sets the condition of the device to ready."""
    step = next(step for step in flow["steps"] if step["do"] == "driver sets condition")
    claim = step["result"]["body"]
    path = f"{_RESOURCE}/v1/namespaces/{flow['namespace']}/resourceclaims/{claim['metadata']['name']}/status"
    yield StepRequest("PATCH", path, {"status": {"devices": claim["status"]["devices"]}})


def _rule(effect: str) -> Callable[[Tree], Iterator[StepRequest]]:
    def do(flow: Tree) -> Iterator[StepRequest]:
        taint = {"key": "example.com/unhealthy", "value": "yes", "effect": effect}
        spec = {"deviceSelector": {"driver": "gpu.nvidia.com", "pool": "t4-node"}, "taint": taint}
        yield StepRequest(
            "POST", f"{_RESOURCE}/v1beta2/devicetaintrules", {"metadata": {"name": "bad-t4"}, "spec": spec}
        )

    return do


def _second_slice(flow: Tree) -> Iterator[StepRequest]:
    first = next(step["object"] for step in flow["steps"] if step.get("object", {}).get("kind") == "ResourceSlice")
    spec = {**first["spec"], "devices": [{"name": "y"}]}
    yield StepRequest("POST", f"{_RESOURCE}/v1/resourceslices", {"metadata": {"name": "part2"}, "spec": spec})


def _no_requests(flow: Tree) -> Iterator[StepRequest]:
    return iter(())


def _single(*step_request: StepRequest) -> Callable[[Tree], Iterator[StepRequest]]:
    return lambda flow: iter(step_request)


_NO_RULE = _single(StepRequest("DELETE", f"{_RESOURCE}/v1beta2/devicetaintrules/bad-t4"))
_KNOWN: Mapping[tuple[str, str], Callable[[Tree], Iterator[StepRequest]]] = {
    ("missing device class", "class appears"): _single(_class("nope.example.com", 'device.driver == "gpu.nvidia.com"')),
    ("missing device class", "cleanup class"): _single(
        StepRequest("DELETE", f"{_RESOURCE}/v1/deviceclasses/nope.example.com")
    ),
    ("pool incomplete", "second slice"): _second_slice,
    ("pool incomplete", "rm"): _single(StepRequest("DELETE", f"{_RESOURCE}/v1/resourceslices/part2")),
    ("binding conditions wait then ready", "driver sets condition"): _ready,
    ("pre-allocated claim by hand pins the pod", "allocate by hand to mi300x"): _by_hand,
    ("taint rule NoExecute with tolerationSeconds", "rule NoExecute"): _rule("NoExecute"),
    ("taint rule NoExecute with tolerationSeconds", "wait"): _no_requests,
    ("taint rule NoExecute with tolerationSeconds", "rm"): _NO_RULE,
    ("taint effect None only reports", "rule None"): _rule("None"),
    ("taint effect None only reports", "rule status"): _no_requests,
    ("taint effect None only reports", "rm"): _NO_RULE,
    ("template deleted after claims exist", "delete template"): lambda flow: iter(
        [StepRequest("DELETE", f"{_RESOURCE}/v1/namespaces/{flow['namespace']}/resourceclaimtemplates/t")]
    ),
    ("slice removed while allocated", "delete slice"): _single(
        StepRequest("DELETE", f"{_RESOURCE}/v1/resourceslices/gone")
    ),
}
