"""``allot demo --offline`` and ``allot demo NUMBER``: explains packaged examples on a mixed cluster, without a lab.

Each result is compared with the header of the example; the exit code is 0 only if all match.
"""

from __future__ import annotations

import re
import textwrap
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from allotment.api.objects.validation import validate
from allotment.cel.validation_context import validation_context
from allotment.cli.explain import show
from allotment.cli.output.compact_names import kinds_of, ranges
from allotment.cli.output.console import Screen, called, folded, open_screen
from allotment.cli.output.errors import finding
from allotment.engine.refusal import AllocationRefusal
from allotment.explanation import Answer, Explanation, explain
from allotment.fleet import FleetCluster, FleetMachine, cluster_of, parse_fleet
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.problems import InputProblem
from allotment.phrases import counted
from allotment.reference.packaged_examples import Example, find_example, packaged_examples

#: T4 first, so that an unsuitable node is always tried.
FLEET = (
    "t4=t4-4x-pcie",
    "a100=dgx-a100-40gb",
    "a100-mig=dgx-a100-40gb/dynamic-mig",
    "a100-80gb=4xa100-80gb",
    "a100-80gb-mig=2xa100-80gb/dynamic-mig",
    "mi300x=mi300x-8x-oam",
    "mi300x-cpx=mi300x-8x-oam/cpx@v0",
    "h100=hgx-h100-generic",
)
KUBE = DEFAULT_RELEASE

_WIDTH = 80
_INDENT = " " * 10


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """The result of an example: an explanation, or the errors for which its manifest is rejected."""

    example: Example
    explanation: Explanation | None
    problems: tuple[InputProblem, ...]

    @property
    def code(self) -> str:
        """``fits``, or the code of the first reason."""
        if self.explanation is None:
            invalid = any(problem.code == "selector-invalid" for problem in self.problems)
            return "selector-invalid" if invalid else "invalid-manifest"
        refused = (answer.reasons.headline.code for answer in self.explanation.answers if answer.reasons)
        return next(refused, "fits")

    @property
    def as_intended(self) -> bool:
        """Whether the result is the one expected by the example's header."""
        return self.code == self.example.expect


def run(arguments: Namespace) -> int:
    """Show the examples; return 0 if all have the expected result."""
    screen = open_screen()
    chosen = [find_example(word) for word in arguments.example] or list(packaged_examples())
    features = Features(kube=KUBE)
    machines = parse_fleet(FLEET)
    cluster = cluster_of(machines, KUBE)
    detailed = bool(arguments.example)
    for line in _introduction(chosen, machines):
        screen.line(line)
    outcomes = []
    for example in chosen:
        outcomes.append(shown := attempt(example, cluster, features))
        if detailed or example is chosen[0]:
            screen.line()
        _show(screen, shown, detailed)
    for line in _summary(outcomes):
        screen.line(line)
    return 0 if all(shown.as_intended for shown in outcomes) else 1


def attempt(example: Example, cluster: FleetCluster, features: Features) -> ExampleResult:
    """Explain one example as if it were applied to an idle cluster."""
    loaded = load_text(example.text, f"{example.name}.yaml")
    values, problems = validate(loaded, validation_context(features))
    if problems:
        return ExampleResult(example, None, tuple(sorted(problems, key=lambda problem: problem.position)))
    explanation = explain((*cluster.nodes, *cluster.slices, *cluster.classes, *values), features)
    return ExampleResult(example, explanation, ())


def _introduction(chosen: Sequence[Example], machines: Sequence[FleetMachine]) -> Iterator[str]:
    count = "One example" if len(chosen) == 1 else f"{len(chosen)} examples"
    yield f"{count} on an idle cluster of {len(machines)} nodes (Kubernetes {KUBE}):"
    for machine, words in zip(machines, FLEET, strict=True):
        yield f"  {machine.node:<14} {words.partition('=')[2]}"


def _show(screen: Screen, shown: ExampleResult, detailed: bool) -> None:
    example, number = shown.example, shown.example.name.partition("-")[0]
    verdict, colour = _verdict(shown)
    screen.line(f"{int(number):>2}  {screen.paint(f'{verdict:<5}', colour)} {screen.paint(example.title, 'bold')}")
    if detailed:
        for line in textwrap.wrap(" ".join(example.story), screen.width or _WIDTH):
            screen.line(line)
        screen.line()
        if shown.explanation is not None:
            show(screen, shown.explanation)
        for problem in shown.problems:
            for line in finding(problem, example.text, screen.width or _WIDTH):
                screen.line(line)
        return
    for line in _compact(shown):
        for part in folded(line, screen.width or _WIDTH, _INDENT):
            screen.line(part)


def _verdict(shown: ExampleResult) -> tuple[str, str]:
    if shown.explanation is None:
        return "error", "red"
    return ("fits", "green") if shown.explanation.fits else ("no", "yellow")


def _compact(shown: ExampleResult) -> Iterator[str]:
    if shown.explanation is None:
        problem = shown.problems[0]
        more = f" (and {len(shown.problems) - 1} more)" if len(shown.problems) > 1 else ""
        # The end of a compiler message is sufficient here; `allot demo N` shows path and position.
        words = re.sub(r".*ERROR: <input>:[0-9]+:[0-9]+: ", "", problem.message.splitlines()[0])
        yield f"line {problem.position.line}: {words}{more}"
        if problem.hint:
            yield problem.hint
        return
    yield from _given(shown.explanation.answers)
    for answer in shown.explanation.answers:
        if answer.reasons is not None:
            yield from _reason(answer.reasons.headline)
            break


def _given(answers: Iterable[Answer]) -> Iterator[str]:
    """Yield pods with their devices; pods that share devices, and replicas of one owner, are on one line."""
    groups: dict[tuple[str, ...], tuple[list[str], list[str], str]] = {}
    for answer in answers:
        if not answer.fits:
            continue
        devices = [device for claim in answer.claims for device in claim.devices]
        names = [device.device for device in devices]
        kinds = kinds_of(dict.fromkeys(device.kind for device in devices if device.kind))
        pod = answer.name.rpartition("/")[2]
        one_each = len(names) == 1
        key = (answer.owner, answer.node, kinds, *(() if one_each and answer.owner else names))
        pods, held, _ = groups.setdefault(key, ([], [], kinds))
        pods.append(pod)
        held.extend(name for name in names if name not in held)
    for (_, node, *_), (pods, held, kinds) in groups.items():
        yield f"{ranges(pods)} on {node}: {ranges(held)}{f' ({kinds})' if kinds else ''}"


def _reason(refused: AllocationRefusal) -> Iterator[str]:
    yield f"{refused.summary} ({refused.code})"
    if refused.nearest is not None:
        yield f"nearest: {refused.nearest}"
    if refused.changes:
        where = refused.changes[-1].node
        words = ", and ".join(change.text for change in refused.changes)
        yield f"change: {words}{f' (then it fits on {where})' if where else ''}"


def _summary(outcomes: Sequence[ExampleResult]) -> Iterator[str]:
    fit = sum(shown.explanation is not None and shown.explanation.fits for shown in outcomes)
    errors = sum(shown.explanation is None for shown in outcomes)
    missed = [shown for shown in outcomes if not shown.as_intended]
    total = counted(len(outcomes), "example")
    no = len(outcomes) - fit - errors
    ending = "all as intended" if not missed else f"{len(missed)} not as intended"
    if len(outcomes) == 1 and not missed:
        return  # the message is sufficient
    yield ""
    for shown in missed:
        yield f"not as intended: {shown.example.name} gives {shown.code}, expected {shown.example.expect}"
    yield f"To explain one example: {called()} demo 9"
    yield f"To explain your own manifest: {called()} explain -f app.yaml --fleet t4:2"
    yield f"{total}: {fit} fit, {no} do not fit, {errors} rejected by the API server; {ending}."
