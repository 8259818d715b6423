"""V306: a class that is neither in the files nor installed by a driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.model.editing.edits import Edit, InsertItem, RenameKey, SetValue
from allotment.model.field_advice import plugin_class_advice
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.resource import DeviceClass
from allotment.model.validation.names import subdomain_problems
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.class_suggestions import ClassSuggestion, suggest_class
from allotment.tools.check.names.known_names import vocabularies
from allotment.tools.check.objects.gates import IMPLICIT_RESOURCE_PREFIX
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import RequestView, at
from allotment.vocabulary import Renamed, Vocabulary
from allotment.vocabulary.parameters import parameter_problems

_NAME_FORMAT = "class names consist of lower-case letters, digits, '-' and '.'"


class _ClassReference(NamedTuple):
    """A reference to a class: the field of a request, or a container's extended resource (``key``)."""

    document: Document
    path: Path
    name: str
    request: RequestView | None = None
    key: bool = False


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    existing = {view.name for view in bundle.classes} | set(bundle.known_classes)
    charts = tuple(vocabularies(bundle))
    charts_by_class = {term.name: chart for chart in charts for term in chart.classes}
    # A snapshot without any class does not include classes.
    is_complete = bundle.cluster is not None and (bundle.cluster.fleet_only or bool(bundle.cluster.of(DeviceClass)))
    for reference in _class_references(bundle):
        is_invalid = subdomain_problems(reference.name)
        if not is_invalid and (reference.name in existing or (not is_complete and reference.name in charts_by_class)):
            continue
        advice = plugin_class_advice(reference.path, reference.name)
        if advice is not None:
            message = advice.sentence
        elif is_invalid:
            message = f'"{reference.name}" is not a valid class name: the API server rejects it'
        elif is_complete:
            message = f'class "{reference.name}" does not exist in the cluster: pods that request it stay pending'
        else:
            message = f'class "{reference.name}" is not in the files, and no known driver installs it'
        renaming = _renamed_class(reference.name, charts)
        if renaming is not None:
            chart, renamed = renaming
            message = (
                f'class "{reference.name}" was removed: {chart.driver} has not installed it since release '
                f"{renamed.release}"
            )
        suggestion = _suggest(reference, renaming, charts_by_class, existing, charts, is_complete)
        yield RuleMatch(
            reference.document,
            reference.path,
            message,
            help=_help(reference, suggestion, charts_by_class, renaming, is_complete=is_complete)
            if suggestion or not is_invalid
            else _NAME_FORMAT,
            fix=_fix(reference, suggestion),
            level="error" if is_complete or is_invalid else "note" if suggestion is None and renaming is None else None,
            at_key=reference.key,
        )


def _class_references(bundle: Bundle) -> Iterator[_ClassReference]:
    for claim in bundle.claims:
        for request in claim.requests:
            if not request.class_name:
                continue
            for base in (request.body, request.path):
                path: Path = (*base, "deviceClassName")
                if at(claim.document.tree, path) == request.class_name:
                    yield _ClassReference(claim.document, path, request.class_name, request)
                    break
    for pod in bundle.pods:
        for container in pod.containers:
            for resource in container.limits:
                if str(resource).startswith(IMPLICIT_RESOURCE_PREFIX):
                    path = (*container.path, "resources", "limits", resource)
                    yield _ClassReference(pod.document, path, resource.removeprefix(IMPLICIT_RESOURCE_PREFIX), key=True)


def _renamed_class(name: str, charts: tuple[Vocabulary, ...]) -> tuple[Vocabulary, Renamed] | None:
    for chart in charts:
        for renamed in chart.renamed:
            if renamed.kind == "class" and renamed.name == name:
                return chart, renamed
    return None


def _suggest(
    reference: _ClassReference,
    renaming: tuple[Vocabulary, Renamed] | None,
    charts_by_class: dict[str, Vocabulary],
    existing: set[str],
    charts: tuple[Vocabulary, ...],
    is_complete: bool,
) -> ClassSuggestion | None:
    if renaming is not None:
        becomes = renaming[1].becomes
        return ClassSuggestion(becomes, "") if becomes and not _needs_parameters(renaming[0], becomes) else None
    if reference.name in charts_by_class:
        return None
    if not is_complete:
        return suggest_class(reference.name, reference.request, [*existing, *charts_by_class], charts)
    suggestion = suggest_class(reference.name, reference.request, existing, charts)
    return suggestion if suggestion is not None and suggestion.name in existing else None


def _needs_parameters(chart: Vocabulary, name: str) -> bool:
    """Whether claims of a class need parameters that cannot be guessed."""
    term = chart.device_class(name)
    for key, types in chart.configs.items():
        if term is not None and not set(types).isdisjoint(term.types):
            version, _, kind = key.rpartition("/")
            problems = parameter_problems(chart.driver, {"apiVersion": version, "kind": kind}, release=chart.release)
            if any(not problem.gate for problem in problems):
                return True
    return False


def _help(
    reference: _ClassReference,
    suggestion: ClassSuggestion | None,
    charts_by_class: dict[str, Vocabulary],
    renaming: tuple[Vocabulary, Renamed] | None,
    *,
    is_complete: bool,
) -> str:
    if renaming is not None:
        chart, renamed = renaming
        text = f"it was for {renamed.meaning}" + (f"; use {renamed.becomes} instead" if renamed.becomes else "")
        if renamed.becomes and _needs_parameters(chart, renamed.becomes):
            text += ", in claims that the driver's controller creates"
        return text
    if reference.name in charts_by_class:
        return (
            f"install the chart of {charts_by_class[reference.name].driver}, which creates the class, or create a "
            "DeviceClass with this name"
        )
    if suggestion is not None:
        return suggestion.reason
    if is_complete:
        return "create the DeviceClass, or check the file that defines it together with this one"
    return "check this file together with the one that defines the DeviceClass, or pass --cluster"


def _fix(reference: _ClassReference, suggestion: ClassSuggestion | None) -> Fix | None:
    if suggestion is None:
        return None
    edits: list[Edit] = []
    text = f"use class {suggestion.name}"
    if reference.key:
        resources = reference.path[:-2]
        for field in ("limits", "requests"):
            path = (*resources, field, reference.path[-1])
            if at(reference.document.tree, path) is not None:
                edits.append(RenameKey(path, f"{IMPLICIT_RESOURCE_PREFIX}{suggestion.name}"))
    else:
        edits.append(SetValue(reference.path, suggestion.name))
        if suggestion.selector:
            selector = {"cel": {"expression": suggestion.selector}}
            selectors_path = (*reference.path[:-1], "selectors")
            selectors = at(reference.document.tree, selectors_path)
            if isinstance(selectors, list):
                edits.append(InsertItem(selectors_path, len(selectors), selector))
            else:
                edits.append(SetValue(selectors_path, [selector], after="deviceClassName"))
            text = f"use class {suggestion.name} with a selector for the model in the name"
    return Fix(text, tuple((reference.document, edit) for edit in edits), safe=False)


RULE = Rule(
    code="V306",
    name="unknown-class",
    family="vocabulary",
    level="warning",
    summary="a request names a class that is neither in the files nor installed by a known driver",
    why=(
        "A DeviceClass must be created by the driver's chart or by an administrator. The API server accepts a claim "
        "that names a missing class, and the scheduler then keeps the pod pending with 'device class … does not "
        "exist' until the class exists (KEP-4381). Class names in tutorials and blog posts are often invented. If a "
        "cluster is given, a missing class is an error. Otherwise, the finding is a warning, or a note if nothing "
        "indicates which class was intended."
    ),
    bad=examples.template("small-gpu", class_name="nvidia-mig"),
    good=examples.template("small-gpu", class_name="mig.nvidia.com"),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#deviceclass",
)
