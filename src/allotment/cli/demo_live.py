"""The demo in a lab: every packaged example is applied, then it is shown who got which devices, and why others wait.

Examples are applied one by one, each in a namespace of its own; after one that takes devices the next one waits until
it has them. So the same pods get the same devices each time.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allotment.cli.demo_apply import Tool, tool, words_of
from allotment.cli.demo_mending import Mended, mend
from allotment.cli.demo_offline import FLEET, KUBE
from allotment.cli.examples import Example, examples
from allotment.cli.naming import kinds_of, ranges
from allotment.cli.screen import Screen, called, folded, open_screen, shorten
from allotment.engine.diagnosis.names import kind_of
from allotment.fleet import cluster_of, parse_fleet
from allotment.lab.lab import Lab
from allotment.model.loading import load_text
from allotment.model.resource import Device
from allotment.model.trees import to_value

Tree = dict[str, Any]

#: A simulated second passes in so much less.
_SPEED = 20.0
_WIDTH = 80
_GAP = "   "
#: A space at which no line ends.
_TIED = "\u00a0"
#: Devices of a pod by name, before the rest is only counted.
_NAMES = 4
#: Nothing takes nearly as long; a demo that hangs would be worse than one that fails.
_PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.01


@dataclass(slots=True)
class Group:
    """Pods of one workload on one node, and what they have."""

    workload: str
    node: str
    pods: int = 0
    given: list[list[str]] = field(default_factory=list)
    """The devices of each claim."""
    kinds: dict[str, None] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Outcome:
    """What became of an example: its groups of pods, the pod that waits with what it is told, or what was refused."""

    example: Example
    groups: list[Group] = field(default_factory=list)
    waits: str = ""
    told: str = ""
    refused: str = ""

    @property
    def number(self) -> int:
        """The example's."""
        return int(self.example.name.partition("-")[0])

    @property
    def runs(self) -> bool:
        """Whether its pods got their devices."""
        return bool(self.groups) and not self.waits and not self.refused

    @property
    def as_intended(self) -> bool:
        """Whether the example does what its header says."""
        expected = self.example.expect
        if self.refused:
            return expected == ("selector-invalid" if "overload" in self.refused else "invalid-manifest")
        if self.waits:
            return f"({expected})" in self.told.partition("\n")[0]
        return expected == "fits"


@dataclass(slots=True)
class Trial:
    """An example on its way: where its objects are, and how many pods each of its workloads has."""

    outcome: Outcome
    spaces: set[str] = field(default_factory=set)
    workloads: dict[str, int] = field(default_factory=dict)


def run() -> int:
    """Show the examples; 0 when all came out as intended."""
    screen = open_screen()
    progress = Progress(screen)
    chosen = examples()
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        stack.callback(progress.clear)
        progress("starting a lab")
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="allotment-demo-")))
        lab = stack.enter_context(Lab(FLEET, name="demo", speed=_SPEED))
        ready = time.perf_counter() - began
        applying = tool(lab.kubeconfig, home)
        progress.clear()
        _introduce(screen, ready)
        screen.out.flush()
        began = time.perf_counter()
        known = _devices(lab)
        trials: list[Trial] = []
        for example in chosen:
            progress(f"{applying.name}: {len(trials) + 1} of {len(chosen)}, {example.title}")
            trials.append(_applied(lab, applying, example))
            if example.expect == "fits":
                _decide(lab, trials[-1], known)
        for trial in trials:
            if trial.outcome.example.expect != "fits":
                progress(f"waiting for what {trial.outcome.example.name} is told")
                _decide(lab, trial, known)
        outcomes = [trial.outcome for trial in trials]
        took = time.perf_counter() - began
        again: list[tuple[Mended, Outcome]] = []
        cluster = cluster_of(parse_fleet(FLEET), KUBE)
        for trial in trials:
            mended = (
                mend(trial.outcome.example, cluster, KUBE, home)
                if trial.outcome.waits or trial.outcome.refused
                else None
            )
            if mended is not None:
                progress(f"mended and applied again: {mended.example.title}")
                second = _applied(lab, applying, mended.example, "mended")
                _decide(lab, second, known)
                again.append((mended, second.outcome))
        progress("stopping the lab")
    _show(screen, outcomes)
    screen.line()
    for line in _mended(screen, again):
        screen.line(line)
    screen.line()
    for line in _summary(outcomes, again, applying.name, took):
        screen.line(line)
    works = all(outcome.runs for _, outcome in again)
    return 0 if works and all(outcome.as_intended for outcome in outcomes) else 1


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A control plane that starts and stops has things to say that are no one's concern here."""
    logger = logging.getLogger("allotment")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class Progress:
    """One line of a terminal that is written over; nothing anywhere else."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = screen.out.isatty()
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show what is done now."""
        if self._live:
            self._shown = True
            self._screen.out.write("\r\x1b[K" + self._screen.paint(shorten(text, self._screen.width or _WIDTH), "dim"))
            self._screen.out.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._shown = False
            self._screen.out.write("\r\x1b[K")
            self._screen.out.flush()


# --- in the lab ------------------------------------------------------------------------------------------------------


def _applied(lab: Lab, applying: Tool, example: Example, prefix: str = "example") -> Trial:
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


def _decide(lab: Lab, trial: Trial, known: Mapping[tuple[str, str, str], str]) -> None:
    """Wait for what becomes of the pods."""
    outcome = trial.outcome
    if outcome.refused:
        return
    for pod, told in _decided(lab, sorted(trial.spaces), sum(trial.workloads.values())):
        name = str(pod["metadata"]["name"])
        workload = next(known_name for known_name in trial.workloads if f"{name}-".startswith(f"{known_name}-"))
        if told:
            outcome.waits, outcome.told = workload, told
        else:
            _seat(lab, outcome, workload, pod, known)
    for group in outcome.groups:
        group.given.sort(key=lambda names: [(len(name), name) for name in names])


def _pods_of(tree: Tree) -> int:
    """How many pods an object stands for."""
    if tree["kind"] == "Deployment":
        return int(tree["spec"].get("replicas", 1))
    return int(tree["kind"] in ("Pod", "Job"))


def _decided(lab: Lab, spaces: Sequence[str], count: int) -> list[tuple[Tree, str]]:
    """The pods, as soon as each has a node or was told why not; with what it was told."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        pods = [pod for space in spaces for pod in lab.list("pods", namespace=space)]
        answers = [(pod, _told(lab, pod)) for pod in pods]
        if len(pods) == count and all(pod["spec"].get("nodeName") or told for pod, told in answers):
            return answers
        if time.monotonic() > deadline:
            return [(pod, told or "nothing was decided about it") for pod, told in answers]
        time.sleep(_LOOK_SECONDS)


def _told(lab: Lab, pod: Tree) -> str:
    if pod["spec"].get("nodeName"):
        return ""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition["message"])
    # Kubernetes writes no condition for a pod whose claims are not there; there is an event.
    meta = pod["metadata"]
    fields = f"involvedObject.name={meta['name']},reason=FailedScheduling"
    return next((str(event["message"]) for event in lab.list("events", namespace=meta["namespace"], fields=fields)), "")


def _seat(lab: Lab, outcome: Outcome, workload: str, pod: Tree, known: Mapping[tuple[str, str, str], str]) -> None:
    node = str(pod["spec"]["nodeName"])
    group = next((one for one in outcome.groups if (one.workload, one.node) == (workload, node)), None)
    if group is None:
        outcome.groups.append(group := Group(workload, node))
    group.pods += 1
    made = {s["name"]: s.get("resourceClaimName") for s in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or made.get(entry["name"])
        if not name or name in group.claims:
            continue
        group.claims.add(name)
        claim = lab.get("resourceclaim", name, namespace=pod["metadata"]["namespace"])
        results = claim["status"]["allocation"]["devices"]["results"]
        group.given.append([result["device"] for result in results])
        for result in results:
            group.kinds[known.get((result["driver"], result["pool"], result["device"]), "")] = None


def _devices(lab: Lab) -> dict[tuple[str, str, str], str]:
    """What each device is."""
    found = {}
    for tree in lab.list("resourceslices"):
        spec = tree["spec"]
        for device in spec.get("devices") or ():
            kind = kind_of(to_value(device, Device), spec["driver"])
            found[spec["driver"], spec["pool"]["name"], device["name"]] = kind
    return found


# --- on the screen ---------------------------------------------------------------------------------------------------


def _introduce(screen: Screen, seconds: float) -> None:
    ready = screen.paint("ready", "green")
    screen.line(f"A lab, {ready} in {seconds:.1f} s: a Kubernetes control plane with {len(FLEET)} nodes")
    for words in FLEET:
        node, _, hardware = words.partition("=")
        screen.line(f"  {node:<14} {hardware}")
    screen.line()


def _show(screen: Screen, outcomes: Sequence[Outcome]) -> None:
    width = screen.width or _WIDTH
    for line in _table(outcomes, width):
        screen.line(line)
    waiting = [outcome for outcome in outcomes if outcome.waits]
    if waiting:
        screen.line()
        screen.line(screen.paint("Pending, and why (describe pod shows all of it):", "yellow"))
        for outcome in waiting:
            _paragraph(screen, width, f"{outcome.number:>2}  ", outcome.waits, _reason(outcome.told))
    refused = [outcome for outcome in outcomes if outcome.refused]
    if refused:
        screen.line()
        screen.line(screen.paint("Refused by the API server:", "red"))
        for outcome in refused:
            _paragraph(screen, width, f"{outcome.number:>2}  ", outcome.example.title, iter([outcome.refused]))


def _mended(screen: Screen, again: Sequence[tuple[Mended, Outcome]]) -> Iterator[str]:
    """What ``allot check`` found in those that could not work, and what became of them once they were mended."""
    width = screen.width or _WIDTH
    yield screen.paint("Mended by allot check --fix --unsafe, and applied again:", "green")
    yield from _table([outcome for _, outcome in again], width)
    yield ""
    yield "What was wrong with them (allot rule CODE tells more):"
    for mended, outcome in again:
        rules = ", ".join(rule.replace(" ", _TIED) for rule in mended.rules)
        yield from (line.replace(_TIED, " ") for line in folded(f"{outcome.number:>2}  {rules}", width))
        if not outcome.runs:
            yield from folded(f"does not run: {outcome.refused or next(_reason(outcome.told))}", width, "    ")


def _table(outcomes: Sequence[Outcome], width: int) -> Iterator[str]:
    rows = [("", "PODS", "NODE", "DEVICES")]
    for outcome in outcomes:
        for group in outcome.groups:
            pods = f"{group.workload} ×{group.pods}" if group.pods > 1 else group.workload
            rows.append((str(outcome.number), pods, group.node, _given(group)))
    first_width, second_width = (max(len(row[column]) for row in rows) for column in (1, 2))
    for row in rows:
        front = f"{row[0]:>2}  {row[1]:<{first_width}}{_GAP}{row[2]:<{second_width}}{_GAP}"
        first, *more = textwrap.wrap(row[3], width - len(front), break_long_words=False, break_on_hyphens=False)
        yield front + first
        yield from (" " * len(front) + line for line in more)


def _given(group: Group) -> str:
    kinds = kinds_of(kind for kind in group.kinds if kind)
    shared = ", shared" if len(group.claims) < group.pods else ""
    names = [name for devices in group.given for name in devices]
    words = ranges(names)
    if words.count(", ") >= _NAMES:
        words = f"{', '.join(names[: _NAMES - 1])} and {len(names) - _NAMES + 1} more"
    return f"{words}{shared}{f' ({kinds})' if kinds else ''}"


def _reason(told: str) -> Iterator[str]:
    """Of what a pod is told the cause, the nearest miss and the change."""
    first, *more = told.splitlines()
    yield first
    for line in more:
        words = line.strip()
        if words.startswith("nearest miss: "):
            yield f"nearest: {words.removeprefix('nearest miss: ')}"
        elif words.startswith("to make it fit"):
            where, _, change = words.removeprefix("to make it fit").partition(": ")
            yield f"change: {change}{f' (then it fits{where})' if where else ''}"
        elif words.startswith("what to do: "):
            yield words


def _paragraph(screen: Screen, width: int, front: str, title: str, lines: Iterator[str]) -> None:
    screen.line(front + screen.paint(title, "bold"))
    for line in lines:
        for part in folded(line, width, " " * (len(front) + 2)):
            screen.line(part)


def _summary(
    outcomes: Sequence[Outcome], again: Sequence[tuple[Mended, Outcome]], tool_name: str, seconds: float
) -> Iterator[str]:
    for outcome in outcomes:
        if not outcome.as_intended:
            found = outcome.refused or outcome.told.partition("\n")[0] or "fits"
            yield f"not as intended: {outcome.example.name}: {found}; its header says {outcome.example.expect}"
    waiting = sum(bool(outcome.waits) for outcome in outcomes)
    refused = sum(bool(outcome.refused) for outcome in outcomes)
    fit = len(outcomes) - waiting - refused
    good = "all" if all(outcome.as_intended for outcome in outcomes) else "not all"
    yield f"{len(outcomes)} manifests, applied with {tool_name} in {seconds:.1f} s:"
    yield f"{fit} run, {waiting} wait, {refused} refused; {good} as intended."
    running = sum(outcome.runs for _, outcome in again)
    yield f"Mended, {running} of the {waiting + refused} others run, too. The lab is gone again."
    yield f"One of them explained: {called()} demo 9. A lab to keep: {called()} up"
