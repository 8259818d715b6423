"""V306: a class that nobody makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.model.editing.edits import Edit, InsertItem, RenameKey, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.resource import DeviceClass
from allotment.model.validation.names import subdomain_problems
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.class_suggestions import Meant, meant_class
from allotment.tools.check.names.known_names import vocabularies
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.views import RequestView, at
from allotment.vocabulary import Renamed, Vocabulary
from allotment.vocabulary.parameters import parameters_of

_NAMES = "names of classes have lower-case letters, digits, - and ."
#: The name of an extended resource that stands for a class of its own accord (KEP-5004).
IMPLICIT = "deviceclass.resource.kubernetes.io/"


class _Use(NamedTuple):
    """A place that names a class: the field of a request, or a container's resource (``key``)."""

    document: Document
    path: Path
    name: str
    request: RequestView | None = None
    key: bool = False


def _find(bundle: Bundle) -> Iterator[Found]:
    made = {view.name for view in bundle.classes} | set(bundle.known_classes)
    charts = tuple(vocabularies(bundle))
    installed = {term.name: chart for chart in charts for term in chart.classes}
    # A cluster's dump without a single class says nothing about classes.
    world = bundle.world is not None and (bundle.world.hardware or bool(bundle.world.of(DeviceClass)))
    for use in _uses(bundle):
        bad = subdomain_problems(use.name)
        if not bad and (use.name in made or (not world and use.name in installed)):
            continue
        if bad:
            message = f'"{use.name}" cannot be the name of a class, and the API server refuses it'
        elif world:
            message = f'class "{use.name}" does not exist in the cluster: pods that ask for it stay pending'
        else:
            message = f'class "{use.name}" is not in the files, and no known driver installs it'
        gone = _gone(use.name, charts)
        if gone is not None:
            chart, renamed = gone
            message = f'class "{use.name}" is no more: {chart.driver} installs none since {renamed.release}'
        meant = _meant(use, gone, installed, made, charts, world)
        yield Found(
            use.document,
            use.path,
            message,
            help=_help(use, meant, installed, gone) if meant or not bad else _NAMES,
            fix=_fix(use, meant),
            level="error" if world or bad else "note" if meant is None and gone is None else None,
            key=use.key,
        )


def _uses(bundle: Bundle) -> Iterator[_Use]:
    for claim in bundle.claims:
        for request in claim.requests:
            if not request.class_name:
                continue
            for base in (request.body, request.path):
                path: Path = (*base, "deviceClassName")
                if at(claim.document.tree, path) == request.class_name:
                    yield _Use(claim.document, path, request.class_name, request)
                    break
    for pod in bundle.pods:
        for container in pod.containers:
            for resource in container.limits:
                if str(resource).startswith(IMPLICIT):
                    path = (*container.path, "resources", "limits", resource)
                    yield _Use(pod.document, path, resource.removeprefix(IMPLICIT), key=True)


def _gone(name: str, charts: tuple[Vocabulary, ...]) -> tuple[Vocabulary, Renamed] | None:
    for chart in charts:
        for renamed in chart.renamed:
            if renamed.kind == "class" and renamed.name == name:
                return chart, renamed
    return None


def _meant(
    use: _Use,
    gone: tuple[Vocabulary, Renamed] | None,
    installed: dict[str, Vocabulary],
    made: set[str],
    charts: tuple[Vocabulary, ...],
    world: bool,
) -> Meant | None:
    if gone is not None:
        becomes = gone[1].becomes
        return Meant(becomes, "") if becomes and not _needs_parameters(gone[0], becomes) else None
    if use.name in installed:
        return None
    if not world:
        return meant_class(use.name, use.request, [*made, *installed], charts)
    meant = meant_class(use.name, use.request, made, charts)
    return meant if meant is not None and meant.name in made else None


def _needs_parameters(chart: Vocabulary, name: str) -> bool:
    """Whether claims of a class carry parameters that nobody can guess."""
    term = chart.device_class(name)
    for key, types in chart.configs.items():
        if term is not None and not set(types).isdisjoint(term.types):
            version, _, kind = key.rpartition("/")
            problems = parameters_of(chart.driver, {"apiVersion": version, "kind": kind}, release=chart.release)
            if any(not problem.gate for problem in problems):
                return True
    return False


def _help(
    use: _Use, meant: Meant | None, installed: dict[str, Vocabulary], gone: tuple[Vocabulary, Renamed] | None
) -> str:
    if gone is not None:
        chart, renamed = gone
        told = f"it was for {renamed.meaning}" + (f"; now {renamed.becomes} is" if renamed.becomes else "")
        if renamed.becomes and _needs_parameters(chart, renamed.becomes):
            told += ", in claims that the driver's controller writes"
        return told
    if use.name in installed:
        return f"the chart of {installed[use.name].driver} installs it; or make a DeviceClass of that name"
    if meant is not None:
        return meant.why
    return "check it together with the file of the DeviceClass, or give --cluster"


def _fix(use: _Use, meant: Meant | None) -> Fix | None:
    if meant is None:
        return None
    edits: list[Edit] = []
    text = f"use class {meant.name}"
    if use.key:
        resources = use.path[:-2]
        for field in ("limits", "requests"):
            path = (*resources, field, use.path[-1])
            if at(use.document.tree, path) is not None:
                edits.append(RenameKey(path, f"{IMPLICIT}{meant.name}"))
    else:
        edits.append(SetValue(use.path, meant.name))
        if meant.selector:
            selector = {"cel": {"expression": meant.selector}}
            beside = (*use.path[:-1], "selectors")
            there = at(use.document.tree, beside)
            if isinstance(there, list):
                edits.append(InsertItem(beside, len(there), selector))
            else:
                edits.append(SetValue(beside, [selector], after="deviceClassName"))
            text = f"use class {meant.name} with a selector for the model in the name"
    return Fix(text, tuple((use.document, edit) for edit in edits), safe=False)


RULE = Rule(
    code="V306",
    name="unknown-class",
    family="vocabulary",
    level="warning",
    summary="a request names a class that neither the files nor any driver's chart makes",
    why=(
        "A DeviceClass is an object that somebody must have made: the driver's chart, or an administrator. The API "
        "server takes a claim that names a missing class, and the scheduler then keeps the pod pending with 'device "
        "class … does not exist' until there is one (KEP-4381). Names in articles are often made up. Against a given "
        "cluster a missing class is an error; where nothing tells what was meant, it is a note."
    ),
    bad=examples.template("small-gpu", class_name="nvidia-mig"),
    good=examples.template("small-gpu", class_name="mig.nvidia.com"),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#deviceclass",
)
