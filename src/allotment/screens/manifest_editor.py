"""Manifests from the editor of the page, checked and explained on this cluster, a snapshot, machines, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from allotment.api.check import check
from allotment.api.cluster import Cluster
from allotment.api.explain import explain
from allotment.api.load import Manifests
from allotment.api.plan import plan
from allotment.errors import InputError, InvalidManifests
from allotment.fleet import accelerators, servers
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import mode_names
from allotment.model.meta import Value
from allotment.model.resource import DeviceClass
from allotment.reference.packaged_examples import find_example
from allotment.screens.header import Screen, command, header
from allotment.screens.hypothetical_changes import machines_of
from allotment.screens.manifest_answers import explanation_of
from allotment.screens.manifest_size import load_few_values, load_limited
from allotment.shell_words import shell_line
from allotment.tools.free import FreeReport
from allotment.vocabulary import drivers
from allotment.vocabulary import vocabulary as vocabulary_of
from allotment.watched.view import ClusterView

#: The name of the text in positions.
FILE: Final = "manifest.yaml"
#: Seconds to search for machines, and again for cheaper requirements; most plans are proven optimal earlier.
_PLAN_SECONDS: Final = 5
_EXAMPLE: Final = "01-one-ampere-gpu"
EditorTarget: TypeAlias = Literal["cluster", "snapshot", "fleet", "none"]


class EditorRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Manifests, and where they are tried. ``fleet``: machines in the syntax of ``--fleet``; ``snapshot``: the text of
    one."""

    text: str = ""
    on: EditorTarget = "cluster"
    fleet: str = ""
    snapshot: str = ""


class HardwareChoice(Value, frozen=True, omit_defaults=False):
    """A server or accelerator that a fleet may have, with its modes."""

    name: str
    product: str
    gpus: int
    memory: str
    modes: tuple[str, ...]


class KnownName(Value, frozen=True):
    """An attribute or capacity that a driver publishes; ``values``: some of those of an attribute."""

    driver: str
    name: str
    type: str = ""
    values: tuple[str, ...] = ()


class EditorVocabulary(Value, frozen=True, omit_defaults=False):
    """The names that an editor completes: those of the cluster first."""

    classes: tuple[str, ...]
    drivers: tuple[str, ...]
    attributes: tuple[KnownName, ...]
    capacities: tuple[KnownName, ...]


class EditorChoices(Screen, frozen=True):
    """The data of the editor."""

    hardware: tuple[HardwareChoice, ...]
    vocabulary: EditorVocabulary
    example: str


class EditorProblem(Value, frozen=True):
    """The reason for a missing answer, with the position if it is in the text; otherwise line 0."""

    message: str
    line: int = 0
    column: int = 0


class EditorAnswer(Screen, frozen=True):
    """The output of `allot check`, `allot explain` and `allot plan` for the text with ``-o json``; None if it does not
    apply."""

    check: dict[str, Any] | None = None
    explanation: dict[str, Any] | None = None
    plan: dict[str, Any] | None = None
    problems: tuple[EditorProblem, ...] = ()


def editor_choices(view: ClusterView) -> EditorChoices:
    """Return the data of the editor before a request."""
    return EditorChoices(
        cluster=header(view),
        command=_command(view, EditorRequest(on="none" if view.place == "none" else "cluster")),
        hardware=tuple(_hardware()),
        vocabulary=view.cached("screens.vocabulary", lambda: _vocabulary(view)),
        example=_example(),
    )


def _example() -> str:
    """The first example, without the line for those that run all of them."""
    lines = find_example(_EXAMPLE).text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("# Expect:"))


def editor_answer(view: ClusterView, request: EditorRequest) -> EditorAnswer:
    """Return the answer. Mistakes in the text are part of it; no error is raised for them."""
    try:
        manifests = load_limited(request.text, FILE)
        cluster = _cluster(view, request)
        checked = check(manifests, cluster=cluster, isolated=True).to_dict()
    except InputError as error:
        return EditorAnswer(cluster=header(view), command=_command(view, request), problems=tuple(_problems(error)))
    explanation: dict[str, Any] | None = None
    planned: dict[str, Any] | None = None
    problems: tuple[EditorProblem, ...] = ()
    try:
        if request.on == "none":
            planned = plan(manifests, cluster, time_limit=_PLAN_SECONDS).to_dict()
        else:
            is_here = request.on == "cluster"
            found = explanation_of(view, manifests) if is_here else explain(manifests, cluster)
            explanation = found.to_dict()
    except InputError as error:
        problems = tuple(_problems(error))
    return EditorAnswer(
        cluster=header(view),
        command=_command(view, request),
        check=checked,
        explanation=explanation,
        plan=planned,
        problems=problems,
    )


def _cluster(view: ClusterView, request: EditorRequest) -> Cluster:
    if request.on == "snapshot":
        return Cluster.snapshot(_snapshot(request.snapshot))
    if request.on == "fleet":
        machines_of(request.fleet)
        return Cluster.fleet(request.fleet)
    return Cluster(kube=view.inputs.features.kube) if request.on == "none" else view.cluster


def _snapshot(text: str) -> Manifests:
    if not text.strip():
        raise InputError("expected the text of a snapshot", "allot snapshot", argument="snapshot")
    return load_few_values(text, "snapshot.yaml")


def _command(view: ClusterView, request: EditorRequest) -> str:
    if request.on == "fleet":
        return shell_line(("allot", "explain", "-f", FILE, "--fleet", request.fleet))
    if request.on == "snapshot":
        return f"allot explain -f {FILE} --cluster snapshot.yaml"
    if request.on == "none":
        return f"allot plan {FILE} --time-limit {_PLAN_SECONDS}"
    return command(view, "explain", "-f", FILE)


def _problems(error: InputError) -> Iterator[EditorProblem]:
    if not isinstance(error, InvalidManifests):
        yield EditorProblem(str(error))
        return
    for problem in error.problems:
        position = problem.position
        message = problem.message + (f" ({problem.hint})" if problem.hint else "")
        is_own = position.file == FILE
        yield EditorProblem(message, position.line if is_own else 0, position.column if is_own else 0)


# --- choices ---------------------------------------------------------------------------------------------------------


def _hardware() -> Iterator[HardwareChoice]:
    for name in (*servers(), *accelerators()):
        machine = hardware(name)
        accelerator = machine.accelerator
        yield HardwareChoice(
            name, accelerator.product, len(machine.slots), f"{accelerator.memory_mib}Mi", mode_names(accelerator)
        )


def _vocabulary(view: ClusterView) -> EditorVocabulary:
    own = (value.metadata.name for value in view.inputs.cluster if isinstance(value, DeviceClass))
    known = [found for name in drivers() if (found := vocabulary_of(name)) is not None]
    attributes: dict[tuple[str, str], KnownName] = {}
    capacities: dict[tuple[str, str], KnownName] = {}
    _add_published(view.free, attributes, capacities)
    for driver in known:
        for attribute in driver.attributes:
            key = (driver.driver, _plain(attribute.name, driver.driver))
            values = attributes[key].values if key in attributes else ()
            attributes[key] = KnownName(*key, attribute.kind, tuple(dict.fromkeys((*values, *attribute.values))))
        for capacity in driver.capacities:
            key = (driver.driver, _plain(capacity.name, driver.driver))
            capacities.setdefault(key, KnownName(*key))
    return EditorVocabulary(
        classes=tuple(dict.fromkeys((*own, *(term.name for driver in known for term in driver.classes)))),
        drivers=tuple(dict.fromkeys((*(name for name, _ in attributes), *(driver.driver for driver in known)))),
        attributes=tuple(attributes.values()),
        capacities=tuple(capacities.values()),
    )


def _plain(name: str, driver: str) -> str:
    """A name without the domain of its driver, as CEL selectors read it."""
    return name.removeprefix(f"{driver}/")


def _add_published(
    report: FreeReport, attributes: dict[tuple[str, str], KnownName], capacities: dict[tuple[str, str], KnownName]
) -> None:
    """Add the names of the first device of each kind; equal devices publish the same."""
    seen: set[tuple[str, str]] = set()
    values: dict[tuple[str, str], dict[str, None]] = {}
    for device in (device for node in report.nodes for device in node.devices):
        if (device.driver, device.kind) in seen:
            continue
        seen.add((device.driver, device.kind))
        for name, value in device.attributes.items():
            values.setdefault((device.driver, name), {})[str(value)] = None
            attributes[device.driver, name] = KnownName(device.driver, name, _TYPES.get(type(value), ""))
        for amount in device.capacity:
            capacities[device.driver, amount.name] = KnownName(device.driver, amount.name)
    for key, found in values.items():
        attributes[key] = KnownName(*key, attributes[key].type, tuple(found))


_TYPES: Final[Mapping[type, str]] = {str: "string", int: "int", bool: "bool", tuple: "list"}
