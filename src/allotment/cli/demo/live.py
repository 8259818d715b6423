"""The demo in a lab: applies every packaged example, and shows which pods got which devices and why others are pending.

Examples are applied in order, each in its own namespace; the next one follows when the pods of one that fits
have their devices, so that the result is the same each time.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from allotment.cli.demo.allocations import Allocations
from allotment.cli.demo.apply import tool
from allotment.cli.demo.autoscaling import ProvisionedExample, buy
from allotment.cli.demo.autoscaling import lines as provisioned_lines
from allotment.cli.demo.example_runs import Outcome, Trial, applied, decide, devices_in, given, table
from allotment.cli.demo.offline import FLEET, KUBE
from allotment.cli.demo.progress import Progress, quiet
from allotment.cli.live.lab_page import lab_page
from allotment.cli.output.browser import open_browser
from allotment.cli.output.console import Screen, called, folded, open_screen
from allotment.explanation.input import AdmittedObjects
from allotment.extras import missing_packages
from allotment.fleet import FleetCluster, cluster_of, parse_fleet
from allotment.lab.lab import Lab
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.reference.packaged_examples import Example, packaged_examples
from allotment.tools.check.bundle import Bundle, CheckSettings, TargetCluster
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import fix


class FixedExample(NamedTuple):
    """A fixed example in a file, and the findings that were fixed, in order."""

    example: Example
    fixed: tuple[Finding, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """Code and name of each rule with findings, without duplicates."""
        return tuple(dict.fromkeys(f"{finding.code} {finding.name}" for finding in self.fixed))


def fix_example(
    example: Example, cluster: FleetCluster, kube: str, folder: Path, admitted: AdmittedObjects | None = None
) -> FixedExample | None:
    """Fix an example for a cluster and write it to ``folder``; return None if nothing can be fixed.

    ``admitted``: the objects of the cluster that were validated for other examples.
    """
    name = f"{example.name}.yaml"
    loaded = load_text(example.text, name)
    world = TargetCluster((*cluster.nodes, *cluster.slices, *cluster.classes), fleet_only=True)
    bundle = Bundle(loaded.documents, CheckSettings(Features(kube=kube)), world, loaded.problems, admitted=admitted)
    fixed = fix(bundle, unsafe=True)
    text = fixed.texts.get(name)
    if text is None:
        return None
    path = folder / name
    path.write_text(text, "utf-8")
    return FixedExample(replace(example, text=text, expect="fits", path=str(path)), fixed.applied)


#: Speed-up of simulated durations.
_SPEED = 20.0
_WIDTH = 80
#: A non-breaking space.
_TIED = "\u00a0"


class Results(NamedTuple):
    """The results of the demo."""

    outcomes: Sequence[Outcome]
    again: Sequence[tuple[FixedExample, Outcome]]
    provisioned: Sequence[ProvisionedExample]
    tool_name: str
    seconds: float

    @property
    def as_intended(self) -> bool:
        """Whether all examples have the expected result, and all others run after the fixes or as planned."""
        works = all(outcome.runs for _, outcome in self.again) and all(each.as_planned for each in self.provisioned)
        return works and all(outcome.as_intended for outcome in self.outcomes)


def run(*, web: bool = False) -> int:
    """Show the examples; return 0 if all have the expected result.

    On a terminal, the page of the lab is served meanwhile; ``web``: and then until Ctrl-C.
    """
    screen = open_screen()
    progress = Progress(screen)
    chosen = packaged_examples()
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        stack.callback(progress.clear)
        progress("starting a lab")
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="allotment-demo-")))
        lab = stack.enter_context(Lab(FLEET, name="demo", speed=_SPEED))
        ready = time.perf_counter() - start
        page: SimpleQueue[str] = SimpleQueue()
        if web or (screen.out.isatty() and not missing_packages("web")):
            stack.enter_context(lab_page(lab.kubeconfig, "", page.put))

        def step(text: str) -> None:
            """Show the current step; before it the address of the page, once it is served."""
            if not web and not page.empty() and (address := page.get()):
                progress.clear()
                screen.line(f"Its page, until the demo ends: {address}")
            progress(text)

        applying = tool(lab.kubeconfig, home)
        progress.clear()
        _introduce(screen, ready)
        screen.out.flush()
        start = time.perf_counter()
        known = devices_in(lab)
        allocations = Allocations(lab)
        trials: list[Trial] = []
        for example in chosen:
            step(f"{applying.name}: {len(trials) + 1} of {len(chosen)}, {example.title}")
            trials.append(applied(lab, applying, example))
            if example.expect == "fits":
                decide(lab, trials[-1], allocations, known)
        for trial in trials:
            if trial.outcome.example.expect != "fits":
                step(f"waiting for the result of {trial.outcome.example.name}")
                decide(lab, trial, allocations, known)
        outcomes = [trial.outcome for trial in trials]
        took = time.perf_counter() - start
        again: list[tuple[FixedExample, Outcome]] = []
        cluster, admitted = cluster_of(parse_fleet(FLEET), KUBE), AdmittedObjects(Features(kube=KUBE))
        for trial in trials:
            fixed = (
                fix_example(trial.outcome.example, cluster, KUBE, home, admitted)
                if trial.outcome.waits or trial.outcome.refused
                else None
            )
            if fixed is not None:
                step(f"fixed and applied again: {fixed.example.title}")
                second = applied(lab, applying, fixed.example, "fixed")
                # A pod created before its template reports that, and runs a moment later.
                decide(lab, second, allocations, known, until_running=True)
                again.append((fixed, second.outcome))
        step("empty cluster: plan, provision, run")
        results = Results(outcomes, again, buy(chosen, home, _SPEED), applying.name, took)
        if web:
            progress.clear()
            _show_results(screen, results)
            _keep_page(screen, page.get())
        progress("stopping the lab")
    if not web:
        _show_results(screen, results)
    for line in _next_steps(screen, web):
        screen.line(line)
    return 0 if results.as_intended else 1


def _keep_page(screen: Screen, address: str) -> None:
    """Print the address of the page, or that there is none (""), and wait for Ctrl-C."""
    screen.line()
    if not address:
        screen.line("The page of the lab could not be served.")
        return
    screen.line(f"The page of the lab: {address}")
    opened = open_browser(address)
    screen.line("Opened in the browser. Press Ctrl-C to end." if opened else "Press Ctrl-C to end.")
    screen.out.flush()
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    screen.line()


def _show_results(screen: Screen, results: Results) -> None:
    _show(screen, results.outcomes)
    screen.line()
    for line in _fixed_lines(screen, results.again):
        screen.line(line)
    screen.line()
    for line in provisioned_lines(screen, results.provisioned):
        screen.line(line)
    screen.line()
    for line in _summary(results):
        screen.line(line)


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
        screen.line(screen.paint("Pending, and why (kubectl describe pod shows the full reason):", "yellow"))
        for outcome in waiting:
            _paragraph(screen, width, f"{outcome.number:>2}  ", outcome.waits, _reason(outcome.message))
    refused = [outcome for outcome in outcomes if outcome.refused]
    if refused:
        screen.line()
        screen.line(screen.paint("Rejected by the API server:", "red"))
        for outcome in refused:
            _paragraph(screen, width, f"{outcome.number:>2}  ", outcome.example.title, iter([outcome.refused]))


def _fixed_lines(screen: Screen, again: Sequence[tuple[FixedExample, Outcome]]) -> Iterator[str]:
    """Yield the findings of ``allot check`` in examples that did not run, and their results after the fixes."""
    width = screen.width or _WIDTH
    yield screen.paint("Fixed by allot check --fix --unsafe-fixes, and applied again:", "green")
    yield from _table([outcome for _, outcome in again], width)
    yield ""
    yield "Problems found (allot rule CODE explains them):"
    for fixed, outcome in again:
        rules = ", ".join(rule.replace(" ", _TIED) for rule in fixed.rules)
        yield from (line.replace(_TIED, " ") for line in folded(f"{outcome.number:>2}  {rules}", width))
        if not outcome.runs:
            yield from folded(f"does not run: {outcome.refused or next(_reason(outcome.message))}", width, "    ")


def _table(outcomes: Sequence[Outcome], width: int) -> Iterator[str]:
    rows = [("", "PODS", "NODE", "DEVICES")]
    rows += [
        (str(outcome.number), group.pods_in_words, group.node, given(group))
        for outcome in outcomes
        for group in outcome.groups
    ]
    return table(rows, width)


def _reason(message: str) -> Iterator[str]:
    """Yield the cause, the nearest miss and the suggested change from a pod's message."""
    first, *more = message.splitlines()
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


def _summary(results: Results) -> Iterator[str]:
    outcomes, again, provisioned, tool_name, seconds = results
    for outcome in outcomes:
        if not outcome.as_intended:
            found = outcome.refused or outcome.message.partition("\n")[0] or "fits"
            yield f"not as intended: {outcome.example.name}: {found}; expected {outcome.example.expect}"
    waiting = sum(bool(outcome.waits) for outcome in outcomes)
    refused = sum(bool(outcome.refused) for outcome in outcomes)
    fit = len(outcomes) - waiting - refused
    good = "all" if all(outcome.as_intended for outcome in outcomes) else "not all"
    yield f"{len(outcomes)} manifests, applied with {tool_name} in {seconds:.1f} s:"
    yield f"{fit} running, {waiting} pending, {refused} rejected; {good} as intended."
    running = sum(outcome.runs for _, outcome in again)
    others = waiting + refused
    yield f"After the fixes, {f'all {others} others' if running == others else f'{running} of the other {others}'} run."
    as_planned = sum(example.as_planned for example in provisioned)
    yield f"In the lab without nodes, {as_planned} of {len(provisioned)} run on exactly the planned machines."


def _next_steps(screen: Screen, web: bool) -> Iterator[str]:
    yield "Both labs were deleted."
    yield f"To explain one example: {called()} demo 9. To start a lab: {called()} up"
    if screen.out.isatty() and not web:
        yield f"To see the examples in the browser: {called()} demo --web. A lab with its page: {called()} up --web"
