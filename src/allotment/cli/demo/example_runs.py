"""Runs examples in a lab, and collects the results of their pods."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allotment.cli.demo.allocations import Allocations
from allotment.cli.demo.apply import Tool, words_of
from allotment.cli.output.compact_names import kinds_of, ranges
from allotment.engine.diagnosis.published_names import kind_of
from allotment.lab.lab import Lab
from allotment.model.loading import load_text
from allotment.model.resource import Device
from allotment.model.trees import Tree, to_value
from allotment.reference.packaged_examples import Example

#: Timeout in seconds, far above the normal time.
TIMEOUT_SECONDS = 30.0
LOOK_SECONDS = 0.01
_GAP = "   "
#: The reasons in events where an event must not name the other namespace.
_IN_EVENTS = {"wrong-namespace": ("claim-missing", "template-missing")}
#: Number of devices shown by name; the rest is counted.
_NAMES = 4


@dataclass(slots=True)
class Group:
    """Pods of one workload on one node, with their devices."""

    workload: str
    node: str
    pods: int = 0
    given: list[list[str]] = field(default_factory=list)
    """The devices of each claim."""
    kinds: dict[str, None] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    devices: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Driver, pool and name."""

    @property
    def pods_in_words(self) -> str:
        """``notebooks ×3``."""
        return f"{self.workload} ×{self.pods}" if self.pods > 1 else self.workload


@dataclass(slots=True)
class Outcome:
    """The result of an example: groups of running pods, the pending pod's message, or the rejection."""

    example: Example
    groups: list[Group] = field(default_factory=list)
    waits: str = ""
    message: str = ""
    refused: str = ""

    @property
    def number(self) -> int:
        """The number of the example."""
        return int(self.example.name.partition("-")[0])

    @property
    def runs(self) -> bool:
        """Whether its pods got their devices."""
        return bool(self.groups) and not self.waits and not self.refused

    @property
    def as_intended(self) -> bool:
        """Whether the result is the one expected by the example's header."""
        expected = self.example.expect
        if self.refused:
            return expected == ("selector-invalid" if "overload" in self.refused else "invalid-manifest")
        if self.waits:
            return gives(self.message, expected)
        return expected == "fits"


@dataclass(slots=True)
class Trial:
    """A running example: the namespace of its objects, and the number of pods per workload."""

    outcome: Outcome
    spaces: set[str] = field(default_factory=set)
    workloads: dict[str, int] = field(default_factory=dict)


def applied(lab: Lab, applying: Tool, example: Example, prefix: str = "example") -> Trial:
    """Apply an example in its own namespace, unless it names one."""
    trial = Trial(Outcome(example))
    trees = [document.tree for document in load_text(example.text).documents]
    own = {str(tree["metadata"]["namespace"]) for tree in trees if tree["metadata"].get("namespace")}
    trial.spaces = own or {f"{prefix}-{trial.outcome.number}"}
    for space in trial.spaces:
        lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    accepted, errors = applying.apply(example.path, "" if own else next(iter(trial.spaces)))
    if accepted:
        trial.workloads = {str(tree["metadata"]["name"]): _pods_of(tree) for tree in trees if _pods_of(tree)}
    else:
        trial.outcome.refused = words_of(errors)
    return trial


def decide(
    lab: Lab, trial: Trial, allocations: Allocations, known: Mapping[tuple[str, str, str], str], *,
    until_running: bool = False,
) -> None:  # fmt: skip
    """Wait for the result of the pods; ``until_running``: until they run, even if they are expected to be pending."""
    outcome = trial.outcome
    if outcome.refused:
        return
    for pod, message in _decided(lab, trial, until_running):
        name = str(pod["metadata"]["name"])
        workload = next(known_name for known_name in trial.workloads if f"{name}-".startswith(f"{known_name}-"))
        if message:
            outcome.waits, outcome.message = workload, message
        else:
            record_placement(outcome, workload, pod, allocations, known)
    for group in outcome.groups:
        group.given.sort(key=lambda names: [(len(name), name) for name in names])


def _pods_of(tree: Tree) -> int:
    """Return the number of pods that an object creates."""
    if tree["kind"] == "Deployment":
        return int(tree["spec"].get("replicas", 1))
    return int(tree["kind"] in ("Pod", "Job"))


def gives(message: str, code: str) -> bool:
    """Return whether a pod's message has this reason."""
    first = message.partition("\n")[0]
    return any(f"({shown})" in first for shown in _IN_EVENTS.get(code, (code,)))


def _decided(lab: Lab, trial: Trial, until_running: bool) -> list[tuple[Tree, str]]:
    """Return the pods when each has a node or reports the expected reason for having none; with their messages.

    Any other reason may be temporary: the claim is not created yet, or a cache is stale.
    """
    count, expected = sum(trial.workloads.values()), trial.outcome.example.expect
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        pods = [pod for space in sorted(trial.spaces) for pod in lab.list("pods", namespace=space)]
        answers = [(pod, message_of(lab, pod)) for pod in pods]
        if len(pods) == count and all(
            _runs(pod) if until_running else _placed(pod) or gives(message, expected) for pod, message in answers
        ):
            return answers
        if time.monotonic() > deadline:
            return [(pod, message or "no scheduling decision") for pod, message in answers]
        time.sleep(LOOK_SECONDS)


def _placed(pod: Tree) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _runs(pod: Tree) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def message_of(lab: Lab, pod: Tree) -> str:
    """Return why a pod has no node; empty if it has one, or has no message yet."""
    if _placed(pod):
        return ""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition["message"])
    # Kubernetes sets no condition for a pod whose claims do not exist, but creates an event.
    meta = pod["metadata"]
    fields = f"involvedObject.name={meta['name']},reason=FailedScheduling"
    events = lab.list("events", namespace=meta["namespace"], fields=fields)
    newest = max(events, key=lambda event: int(event["metadata"]["resourceVersion"]), default={"message": ""})
    return str(newest["message"])


def record_placement(
    outcome: Outcome, workload: str, pod: Tree, allocations: Allocations, known: Mapping[tuple[str, str, str], str]
) -> None:
    """Record the node and devices of a pod; ``known``: product by device."""
    node = str(pod["spec"]["nodeName"])
    group = next(
        (candidate for candidate in outcome.groups if (candidate.workload, candidate.node) == (workload, node)), None
    )
    if group is None:
        outcome.groups.append(group := Group(workload, node))
    group.pods += 1
    made = {s["name"]: s.get("resourceClaimName") for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or made.get(entry["name"])
        if not name or name in group.claims:
            continue
        group.claims.add(name)
        results = allocations.of(pod["metadata"]["namespace"], name)
        group.given.append([result["device"] for result in results])
        for result in results:
            device = (result["driver"], result["pool"], result["device"])
            group.devices[device] = None
            group.kinds[known.get(device, "")] = None


def devices_in(lab: Lab) -> dict[tuple[str, str, str], str]:
    """Return the product of each device."""
    found = {}
    for tree in lab.list("resourceslices"):
        spec = tree["spec"]
        for device in spec.get("devices") or ():
            kind = kind_of(to_value(device, Device), spec["driver"])
            found[spec["driver"], spec["pool"]["name"], device["name"]] = kind
    return found


def given(group: Group) -> str:
    """Return the devices of a group as text."""
    kinds = kinds_of(kind for kind in group.kinds if kind)
    shared = ", shared" if len(group.claims) < group.pods else ""
    names = [name for devices in group.given for name in devices]
    words = ranges(names)
    if words.count(", ") >= _NAMES:
        words = f"{', '.join(names[: _NAMES - 1])} and {len(names) - _NAMES + 1} more"
    return f"{words}{shared}{f' ({kinds})' if kinds else ''}"


def table(rows: Sequence[tuple[str, str, str, str]], width: int) -> Iterator[str]:
    """Return the table of example number, pods, node and devices; the last column is folded."""
    first_width, second_width = (max(len(row[column]) for row in rows) for column in (1, 2))
    for row in rows:
        front = f"{row[0]:>2}  {row[1]:<{first_width}}{_GAP}{row[2]:<{second_width}}{_GAP}"
        first, *more = textwrap.wrap(row[3], width - len(front), break_long_words=False, break_on_hyphens=False) or [""]
        yield (front + first).rstrip()
        yield from (" " * len(front) + line for line in more)
