"""S105: requests without a name, or with a name that is not a DNS label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.model.editing.edits import Edit, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.validation.names import label_problems
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import as_label
from allotment.tools.check.objects.classic_dra import is_classic
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ClaimView, at, items, mapping, text

_FIRST_PART: Final = re.compile(r"[a-z]([a-z0-9]*)")


class _RequestName(NamedTuple):
    """A request or an alternative (of the request ``of``): its path, its name as written, and its class."""

    path: Path
    name: str
    class_name: str
    of: str = ""


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Requests and alternatives without a name, and those whose name is not a label."""
    for claim in bundle.claims:
        if is_classic(claim.document):
            continue
        requests = mapping(at(claim.document.tree, claim.devices)).get("requests")
        top_level = [_request_name((*claim.devices, "requests", n), request) for n, request in items(requests)]
        groups = [top_level]
        for request_name in top_level:
            alternatives = at(claim.document.tree, (*request_name.path, "firstAvailable"))
            if alternatives is not None:
                path: Path = (*request_name.path, "firstAvailable")
                groups.append([_request_name((*path, n), entry, request_name.name) for n, entry in items(alternatives)])
        for group in groups:
            yield from _check_group(bundle, claim, group, group is top_level)


def _request_name(path: Path, request: dict[str, Any], of: str = "") -> _RequestName:
    body = mapping(request.get("exactly")) or request
    return _RequestName(path, text(request.get("name")), text(body.get("deviceClassName")), of)


def _check_group(bundle: Bundle, claim: ClaimView, group: list[_RequestName], is_top: bool) -> Iterator[RuleMatch]:
    names = {request.name for request in group if request.name}
    nameless = [request for request in group if not request.name]
    dangling = _undefined_names(claim, names) if is_top else []
    taken = {*names, *dangling}
    for request in group:
        if isinstance(at(claim.document.tree, (*request.path, "name")), int | float | bool | list | dict):
            continue  # S108 reports it
        if not request.name:
            # Undefined names in constraints or config belong to these requests if their numbers are equal.
            is_referenced = len(nameless) == len(dangling)
            name = (
                dangling[nameless.index(request)]
                if is_referenced
                else _unused_name(_base_name(request.class_name), nameless, taken)
            )
            taken.add(name)
            edit = SetValue((*request.path, "name"), name, first=True)
            yield RuleMatch(
                claim.document,
                request.path,
                "a request needs a name" if is_top else "an alternative of a request needs a name",
                fix=Fix(f"name it {name}", ((claim.document, edit),), safe=not is_referenced or len(dangling) == 1),
            )
        elif problems := label_problems(request.name):
            label = as_label(request.name)
            # A constraint that names the label intends this request.
            is_intended = label in dangling and label not in names
            name = label if is_intended else _unused_name(label or _base_name(request.class_name), [], taken)
            names.add(name)
            taken.add(name)
            reference_edits = _references(bundle, claim, request, name)
            edits = ((claim.document, SetValue((*request.path, "name"), name)), *reference_edits)
            yield RuleMatch(
                claim.document,
                (*request.path, "name"),
                f'"{request.name}" is not a valid request name: {_short_problem(problems[0])}',
                fix=Fix(
                    f"rename it to {name}" + (" and update the references" if reference_edits else ""),
                    edits,
                    not reference_edits,
                ),
            )


def _short_problem(problem: str) -> str:
    return "use lower-case letters, digits and '-'" if problem.startswith("a lowercase") else problem


def _base_name(class_name: str) -> str:
    """The base of a generated name for devices of a class: ``gpu`` for gpu.nvidia.com."""
    first = class_name.partition(".")[0]
    return first if "." in class_name and _FIRST_PART.fullmatch(first) else "gpu"


def _unused_name(base: str, nameless: list[_RequestName], used: set[str]) -> str:
    """A name that no other request has; numbered if several requests need one."""
    if len(nameless) < 2 and base not in used:
        return base
    base, number = base[:58].rstrip("-"), 1  # a label has at most 63 characters
    while f"{base}-{number}" in used:
        number += 1
    return f"{base}-{number}"


def _undefined_names(claim: ClaimView, defined: set[str]) -> list[str]:
    """Valid names in constraints and config that no request has."""
    referenced = [name for listed in _references_in(claim) for name in listed]
    return [
        name for name in dict.fromkeys(reference.partition("/")[0] for reference in referenced)
        if name not in defined and not label_problems(name)
    ]  # fmt: skip


def _references_in(claim: ClaimView) -> Iterator[tuple[str, ...]]:
    yield from (constraint.requests for constraint in claim.constraints)
    yield from (config.requests for config in claim.configs)


def _references(bundle: Bundle, claim: ClaimView, request: _RequestName, name: str) -> list[tuple[Document, Edit]]:
    """The edits of references to a request: in constraints and config of the claim, and in containers of its pods."""
    edits: list[tuple[Document, Edit]] = []
    old, new = (f"{request.of}/{request.name}", f"{request.of}/{name}") if request.of else (request.name, name)
    for field in ("constraints", "config"):
        for number, entry in items(at(claim.document.tree, (*claim.devices, field))):
            path: Path = (*claim.devices, field, number, "requests")
            listed = entry.get("requests")
            for index, reference in enumerate(listed if isinstance(listed, list) else []):
                if not isinstance(reference, str):
                    continue
                if reference == old:
                    edits.append((claim.document, SetValue((*path, index), new)))
                elif not request.of and reference.startswith(f"{old}/"):
                    edits.append((claim.document, SetValue((*path, index), new + reference.removeprefix(old))))
    if request.of:
        return edits
    for pod in bundle.pods:
        entries = {
            entry.name for entry in pod.entries
            if (entry.kind, entry.refers_to, pod.key.namespace) == (claim.kind, claim.key.name, claim.key.namespace)
        }  # fmt: skip
        edits += [
            (pod.document, SetValue((*use.path, "request"), name))
            for container in pod.containers
            for use in container.uses
            if use.name in entries and use.request == request.name
        ]
    return edits


RULE = Rule(
    code="S105",
    name="request-without-name",
    family="shape",
    level="error",
    summary="a request has no name, or its name is not a DNS label",
    why=(
        "Every request and every alternative must have a name: allocation results, constraints, configuration and "
        "containers refer to it. The API server requires a DNS label (RFC 1123): lower-case letters, digits and '-', "
        "at most 63 characters, and no dots, because the name becomes part of other names (KEP-4381). An empty name "
        "is also rejected."
    ),
    bad=examples.claim("inference").replace("- name: gpu\n      exactly:", "- exactly:"),
    good=examples.claim("inference"),
    find=_find,
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
)
