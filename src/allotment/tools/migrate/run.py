"""``migrate``: turns the documents of all files into decisions, new objects and changed file texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from allotment.model.editing.edits import Edit, EditError
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import Document, load_text
from allotment.tools.migrate.actions import Action
from allotment.tools.migrate.claim_plan import ClaimPlan, label
from allotment.tools.migrate.classes import ServingClass, serving_class
from allotment.tools.migrate.decision import Decision
from allotment.tools.migrate.decision_rules import decide
from allotment.tools.migrate.manifest_edits import edits_of
from allotment.tools.migrate.manifest_writer import claim_text, class_text
from allotment.tools.migrate.notes import notes_of
from allotment.tools.migrate.report import CLASSES_FILE, MigratedWorkload, Migration, NewObject
from allotment.tools.migrate.resource_names import format_requests
from allotment.tools.migrate.shared_claims import group_shared_claims, with_needs
from allotment.tools.migrate.target import Target
from allotment.tools.migrate.workload_reader import workloads_of
from allotment.tools.views import PodView, claim_view, mapping, text

_SUFFIX: Final = "-gpu"
_PRODUCT: Final = re.compile(r'\.productName == "([^"]+)"')


class NameAllocator:
    """Allocates unique names for claims and templates, avoiding those in the files."""

    def __init__(self, documents: Iterable[Document], namespace: str) -> None:
        views = (claim_view(document, namespace) for document in documents)
        self._taken: set[tuple[str, str, str]] = {
            (view.kind, view.key.namespace, view.key.name) for view in views if view is not None
        }

    def allocate(self, kind: str, namespace: str, wanted: str) -> str:
        """The wanted name, with a number if it is taken."""
        number, name = 1, wanted
        while (kind, namespace, name) in self._taken:
            number += 1
            name = f"{wanted[:60]}-{number}"
        self._taken.add((kind, namespace, name))
        return name


def name_after_object(views: Iterable[PodView]) -> str:
    """A name from the object that creates all these pods, and its part if there is one; empty for several objects."""
    listed = tuple(views)
    if len({(view.kind, view.key) for view in listed}) > 1:
        return ""
    parts = {view.part for view in listed}
    return name_after_workload(listed[0].key.name, parts.pop() if len(parts) == 1 else "")


def name_after_workload(workload: str, part: str = "") -> str:
    """``web`` -> ``web-gpu``, a DNS label.

    >>> name_after_workload("vllm.prod")
    'vllm-prod-gpu'
    """
    return label(f"{workload or 'pod'}-{part}")[: 63 - len(_SUFFIX)].rstrip("-") + _SUFFIX


def name_after_plan(plan: ClaimPlan) -> str:
    """A name from the requested devices: ``nvidia-a100-sxm4-40gb-x8``, ``mig-1g-5gb``, ``gpu``."""
    parts = []
    for request in plan.requests:
        texts = [condition.expression for condition in request.kind.conditions]
        product = next((found[1] for text in texts if (found := _PRODUCT.search(text))), "")
        instead = next((c.instead_of for c in request.kind.conditions if "/mig-" in c.instead_of), "")
        device_name = label(instead.rpartition("/")[2]) if instead else label(product) if product else "gpu"
        parts.append(device_name + (f"-x{request.number}" if request.number > 1 else ""))
    return label("-".join(dict.fromkeys(parts)))


def migrate(documents: Iterable[Document], target: Target, namespace: str = "default") -> Migration:
    """Migrate every workload that requests device plugin resources.

    ``namespace``: the namespace of objects that do not specify one.
    """
    before = tuple(documents)
    actions = [with_needs(decide(workload, target)) for workload in workloads_of(before, target, namespace)]
    claims = _Claims(before, namespace)
    claims.add_templates(actions)
    claims.add_shared_claims(actions)
    classes = _classes(actions, target)
    sources = {document.file: document.origin.source for document in before}
    texts, unwritten = _edit_files(actions, claims, sources)
    made = _assign_files(claims, sources, unwritten)
    for new_object in made:
        texts[new_object.file] = _appended(
            texts.get(new_object.file, sources.get(new_object.file, "")), new_object.text
        )
    workloads = tuple(
        _migrated_workload(number, action, claims, classes, unwritten) for number, action in enumerate(actions)
    )
    made_classes = tuple(
        _new_class(device_class, users) for device_class, users in classes.items() if device_class.expression
    )
    return Migration(
        target=target,
        workloads=workloads,
        new_objects=made,
        classes=made_classes,
        sources=sources,
        texts=texts,
        before=before,
        after=_reload(sources, texts, made_classes),
        unwritten=unwritten,
        namespace=namespace,
    )


@dataclass(slots=True)
class _Claims:
    """The new claims and templates, and the one that each workload uses, by its index."""

    documents: tuple[Document, ...]
    namespace: str
    new_objects: list[NewObject] = field(default_factory=list)
    used: dict[int, NewObject] = field(default_factory=dict)
    files: dict[NewObject, tuple[str, ...]] = field(default_factory=dict)
    _names: NameAllocator = field(init=False)

    def __post_init__(self) -> None:
        self._names = NameAllocator(self.documents, self.namespace)

    def add_templates(self, actions: list[Action]) -> None:
        """Add one template per distinct request of a file, so that each file can be applied or deleted alone."""
        groups: dict[object, list[int]] = {}
        for number, action in enumerate(actions):
            if action.decision.outcome == "template" and action.plan is not None:
                view = action.workload.view
                groups.setdefault((view.document.file, view.key.namespace, action.plan.identity), []).append(number)
        for numbers in groups.values():
            plan = actions[numbers[0]].plan
            assert plan is not None
            name = name_after_object(actions[number].workload.view for number in numbers) or name_after_plan(plan)
            self._add("ResourceClaimTemplate", name, plan, actions, numbers)

    def add_shared_claims(self, actions: list[Action]) -> None:
        """Add the claims that several pods share."""
        for claim in group_shared_claims(actions):
            name = name_after_object(actions[number].workload.view for number in claim.actions) or "shared-gpu"
            self._add("ResourceClaim", name, claim.plan, actions, claim.actions)

    def _add(self, kind: str, wanted: str, plan: ClaimPlan, actions: list[Action], numbers: Iterable[int]) -> None:
        users = [actions[number] for number in numbers]
        view = users[0].workload.view
        name = self._names.allocate(kind, view.key.namespace, wanted)
        written = text(mapping(view.document.tree.get("metadata")).get("namespace"))
        subjects = tuple(user.workload.subject for user in users)
        requests = dict.fromkeys(format_requests(user.workload.containers) for user in users)
        why = f"For {', '.join(subjects)}: instead of {'; '.join(requests)}."
        yaml = claim_text(kind, name, written, plan, why)
        file = view.document.file
        new_object = NewObject(kind=kind, namespace=view.key.namespace, name=name, text=yaml, file=file, users=subjects)
        self.new_objects.append(new_object)
        self.files[new_object] = tuple(dict.fromkeys(user.workload.view.document.file for user in users))
        self.used.update((number, new_object) for number in numbers)


# --- texts -----------------------------------------------------------------------------------------------------------


def _edit_files(
    actions: list[Action], claims: _Claims, sources: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of files whose workloads change, and the errors of files that could not be changed."""
    edits: dict[str, list[tuple[Document, Edit]]] = {}
    for number, made in claims.used.items():
        action = actions[number]
        document = action.workload.view.document
        refers = "resourceClaimName" if made.kind == "ResourceClaim" else "resourceClaimTemplateName"
        changes = edits_of(action, (refers, made.name))
        edits.setdefault(document.file, []).extend((document, change) for change in changes)
    texts: dict[str, str] = {}
    unwritten: dict[str, str] = {}
    for file, pairs in edits.items():
        try:
            texts[file] = rewrite(sources[file], file, pairs)
        except EditError as error:
            unwritten[file] = str(error)
    return texts, unwritten


def _assign_files(claims: _Claims, sources: Mapping[str, str], unwritten: Mapping[str, str]) -> tuple[NewObject, ...]:
    """The new objects in use, each assigned to the first of its users' files that could be changed.

    Documents cannot be appended to JSON: its objects go to a new file next to it.
    """
    found = []
    for new_object in claims.new_objects:
        files = [file for file in claims.files[new_object] if file not in unwritten]
        if not files:
            continue
        home = files[0]
        if sources[home].lstrip("\ufeff \t\r\n").startswith(("{", "[")):
            home = f"{home.removesuffix('.json')}-claims.yaml"
        found.append(replace(new_object, file=home))
    return tuple(found)


def _appended(text: str, document: str) -> str:
    """The text with one more document, keeping its line ends."""
    if not text.strip():
        return document
    ends = "\r\n" if "\r\n" in text else "\n"
    before = text if text.endswith("\n") else text + ends
    separator = "" if before.rstrip().endswith("\n---") else f"---{ends}"
    return before + separator + document.replace("\n", ends)


def _reload(sources: Mapping[str, str], texts: Mapping[str, str], classes: Iterable[NewObject]) -> tuple[Document, ...]:
    """The documents of all files, parsed from the new texts."""
    everything = {**sources, **texts}
    documents = [document for file, text in everything.items() for document in load_text(text, file).documents]
    documents += [document for new_class in classes for document in load_text(new_class.text, CLASSES_FILE).documents]
    return tuple(documents)


# --- result ----------------------------------------------------------------------------------------------------------


def _classes(actions: list[Action], target: Target) -> dict[ServingClass, tuple[str, ...]]:
    """The classes that serve resources under their old names, each with the workloads that use it."""
    found: dict[ServingClass, tuple[str, ...]] = {}
    for action in actions:
        if action.decision.outcome == "class":
            for request in action.workload.requests:
                device_class = serving_class(request, target)
                found[device_class] = tuple(dict.fromkeys((*found.get(device_class, ()), action.workload.subject)))
    return found


def _new_class(device_class: ServingClass, users: tuple[str, ...]) -> NewObject:
    why = f"Serves {device_class.resource} under its old name, for {', '.join(users)}."
    text = class_text(device_class.name, device_class.expression, device_class.resource, why)
    return NewObject(kind="DeviceClass", namespace="", name=device_class.name, text=text, file="", users=users)


def _migrated_workload(
    number: int,
    action: Action,
    claims: _Claims,
    classes: Mapping[ServingClass, tuple[str, ...]],
    unwritten: Mapping[str, str],
) -> MigratedWorkload:
    view = action.workload.view
    made = claims.used.get(number)
    decision = action.decision
    if decision.outcome == "class":
        named = tuple(device_class.name for device_class, users in classes.items() if action.workload.subject in users)
        decision = replace(decision, needs=replace(decision.needs, classes=named))
    if decision.changes and view.document.file in unwritten:
        reason = f"{decision.reason} The file cannot be changed: {unwritten[view.document.file]}"
        decision = Decision(outcome="cannot", reason=reason, basis=decision.basis)
        made = None
    return MigratedWorkload(
        kind=view.kind,
        namespace=view.key.namespace,
        name=view.key.name,
        file=view.document.file,
        line=view.document.position(view.spec if view.custom else ()).line,
        replicas=view.replicas,
        containers=action.workload.containers,
        decision=decision,
        labels=action.affinity.labels,
        claim_kind=made.kind if made else "",
        claim_name=made.name if made else "",
        notes=notes_of(action),
        custom=view.custom,
        part=view.part,
    )
