"""``migrate``: from the documents of all files to decisions, new objects, and the texts of the files after."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from allotment.model.editing.edits import Edit, EditError
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import Document, load_text
from allotment.tools.migrate.actions import Course
from allotment.tools.migrate.claim_plan import Plan, label
from allotment.tools.migrate.classes import Serving, serving
from allotment.tools.migrate.decision import Decision
from allotment.tools.migrate.decision_rules import course_of
from allotment.tools.migrate.manifest_edits import edits_of
from allotment.tools.migrate.manifest_writer import claim_text, class_text
from allotment.tools.migrate.notes import notes_of
from allotment.tools.migrate.report import CLASSES_FILE, Made, Migrated, Migration
from allotment.tools.migrate.resource_names import in_words
from allotment.tools.migrate.shared_claims import put_together, with_needs
from allotment.tools.migrate.target import Target
from allotment.tools.migrate.workload_reader import workloads_of
from allotment.tools.views import PodView, claim_view, mapping, text

_SUFFIX: Final = "-gpu"
_PRODUCT: Final = re.compile(r'\.productName == "([^"]+)"')


class Names:
    """Names that are free: those of claims and templates in the files are taken, and each is given once."""

    def __init__(self, documents: Iterable[Document], namespace: str) -> None:
        views = (claim_view(document, namespace) for document in documents)
        self._taken: set[tuple[str, str, str]] = {
            (view.kind, view.key.namespace, view.key.name) for view in views if view is not None
        }

    def give(self, kind: str, namespace: str, wanted: str) -> str:
        """The name, or with a number where it is taken."""
        number, name = 1, wanted
        while (kind, namespace, name) in self._taken:
            number += 1
            name = f"{wanted[:60]}-{number}"
        self._taken.add((kind, namespace, name))
        return name


def after_object(views: Iterable[PodView]) -> str:
    """After the object that makes all these pods, and the part of it where there is but one; empty for several."""
    listed = tuple(views)
    if len({(view.kind, view.key) for view in listed}) > 1:
        return ""
    parts = {view.part for view in listed}
    return after_workload(listed[0].key.name, parts.pop() if len(parts) == 1 else "")


def after_workload(workload: str, part: str = "") -> str:
    """``web`` -> ``web-gpu``, a DNS label.

    >>> after_workload("vllm.prod")
    'vllm-prod-gpu'
    """
    return label(f"{workload or 'pod'}-{part}")[: 63 - len(_SUFFIX)].rstrip("-") + _SUFFIX


def after_plan(plan: Plan) -> str:
    """After what is asked: ``nvidia-a100-sxm4-40gb-x8``, ``mig-1g-5gb``, ``gpu``."""
    parts = []
    for request in plan.requests:
        texts = [condition.expression for condition in request.kind.conditions]
        product = next((found[1] for text in texts if (found := _PRODUCT.search(text))), "")
        instead = next((c.instead_of for c in request.kind.conditions if "/mig-" in c.instead_of), "")
        what = label(instead.rpartition("/")[2]) if instead else label(product) if product else "gpu"
        parts.append(what + (f"-x{request.number}" if request.number > 1 else ""))
    return label("-".join(dict.fromkeys(parts)))


def migrate(documents: Iterable[Document], target: Target, namespace: str = "default") -> Migration:
    """What becomes of every workload that asks a device plugin, and the manifests after.

    ``namespace`` is that of objects that name none.
    """
    before = tuple(documents)
    courses = [with_needs(course_of(workload, target)) for workload in workloads_of(before, target, namespace)]
    claims = _Claims(before, namespace)
    claims.templates(courses)
    claims.shared(courses)
    classes = _classes(courses, target)
    sources = {document.file: document.origin.source for document in before}
    texts, unwritten = _changed(courses, claims, sources)
    made = _housed(claims, sources, unwritten)
    for one in made:
        texts[one.file] = _appended(texts.get(one.file, sources.get(one.file, "")), one.text)
    workloads = tuple(_told(number, course, claims, classes, unwritten) for number, course in enumerate(courses))
    made_classes = tuple(_made_class(one, users) for one, users in classes.items() if one.expression)
    return Migration(
        target=target,
        workloads=workloads,
        made=made,
        classes=made_classes,
        sources=sources,
        texts=texts,
        before=before,
        after=_after(sources, texts, made_classes),
        unwritten=unwritten,
        namespace=namespace,
    )


@dataclass(slots=True)
class _Claims:
    """The new claims and templates, and which workload (by number) uses which."""

    documents: tuple[Document, ...]
    namespace: str
    made: list[Made] = field(default_factory=list)
    used: dict[int, Made] = field(default_factory=dict)
    files: dict[Made, tuple[str, ...]] = field(default_factory=dict)
    _names: Names = field(init=False)

    def __post_init__(self) -> None:
        self._names = Names(self.documents, self.namespace)

    def templates(self, courses: list[Course]) -> None:
        """One template for each distinct ask of a file: applied or deleted alone, a file must hold all it needs."""
        alike: dict[object, list[int]] = {}
        for number, course in enumerate(courses):
            if course.decision.outcome == "template" and course.plan is not None:
                view = course.workload.view
                alike.setdefault((view.document.file, view.key.namespace, course.plan.identity), []).append(number)
        for numbers in alike.values():
            plan = courses[numbers[0]].plan
            assert plan is not None
            name = after_object(courses[number].workload.view for number in numbers) or after_plan(plan)
            self._make("ResourceClaimTemplate", name, plan, courses, numbers)

    def shared(self, courses: list[Course]) -> None:
        """The claims that several pods name."""
        for together in put_together(courses):
            name = after_object(courses[number].workload.view for number in together.courses) or "shared-gpu"
            self._make("ResourceClaim", name, together.plan, courses, together.courses)

    def _make(self, kind: str, wanted: str, plan: Plan, courses: list[Course], numbers: Iterable[int]) -> None:
        users = [courses[number] for number in numbers]
        view = users[0].workload.view
        name = self._names.give(kind, view.key.namespace, wanted)
        written = text(mapping(view.document.tree.get("metadata")).get("namespace"))
        subjects = tuple(user.workload.subject for user in users)
        asks = dict.fromkeys(in_words(user.workload.containers) for user in users)
        why = f"For {', '.join(subjects)}: instead of {'; '.join(asks)}."
        yaml = claim_text(kind, name, written, plan, why)
        file = view.document.file
        one = Made(kind=kind, namespace=view.key.namespace, name=name, text=yaml, file=file, users=subjects)
        self.made.append(one)
        self.files[one] = tuple(dict.fromkeys(user.workload.view.document.file for user in users))
        self.used.update((number, one) for number in numbers)


# --- texts -----------------------------------------------------------------------------------------------------------


def _changed(
    courses: list[Course], claims: _Claims, sources: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of files whose workloads change, and why those that could not be changed could not."""
    edits: dict[str, list[tuple[Document, Edit]]] = {}
    for number, made in claims.used.items():
        course = courses[number]
        document = course.workload.view.document
        refers = "resourceClaimName" if made.kind == "ResourceClaim" else "resourceClaimTemplateName"
        changes = edits_of(course, (refers, made.name))
        edits.setdefault(document.file, []).extend((document, change) for change in changes)
    texts: dict[str, str] = {}
    unwritten: dict[str, str] = {}
    for file, pairs in edits.items():
        try:
            texts[file] = rewrite(sources[file], file, pairs)
        except EditError as error:
            unwritten[file] = str(error)
    return texts, unwritten


def _housed(claims: _Claims, sources: Mapping[str, str], unwritten: Mapping[str, str]) -> tuple[Made, ...]:
    """The new objects that somebody uses, each in the first file of its users that could be changed.

    Nothing can be added to JSON: what belongs there goes to a new file beside it.
    """
    found = []
    for one in claims.made:
        files = [file for file in claims.files[one] if file not in unwritten]
        if not files:
            continue
        home = files[0]
        if sources[home].lstrip("\ufeff \t\r\n").startswith(("{", "[")):
            home = f"{home.removesuffix('.json')}-claims.yaml"
        found.append(replace(one, file=home))
    return tuple(found)


def _appended(text: str, document: str) -> str:
    """A text with one more document, with the line ends that it has."""
    if not text.strip():
        return document
    ends = "\r\n" if "\r\n" in text else "\n"
    before = text if text.endswith("\n") else text + ends
    separator = "" if before.rstrip().endswith("\n---") else f"---{ends}"
    return before + separator + document.replace("\n", ends)


def _after(sources: Mapping[str, str], texts: Mapping[str, str], classes: Iterable[Made]) -> tuple[Document, ...]:
    """Everything, read again."""
    everything = {**sources, **texts}
    documents = [document for file, text in everything.items() for document in load_text(text, file).documents]
    documents += [document for one in classes for document in load_text(one.text, CLASSES_FILE).documents]
    return tuple(documents)


# --- what is told ----------------------------------------------------------------------------------------------------


def _classes(courses: list[Course], target: Target) -> dict[Serving, tuple[str, ...]]:
    """The classes that serve resources under their old names, each with the workloads that it is for."""
    found: dict[Serving, tuple[str, ...]] = {}
    for course in courses:
        if course.decision.outcome == "class":
            for ask in course.workload.asks:
                one = serving(ask, target)
                found[one] = tuple(dict.fromkeys((*found.get(one, ()), course.workload.subject)))
    return found


def _made_class(one: Serving, users: tuple[str, ...]) -> Made:
    why = f"Serves {one.resource} under its old name, for {', '.join(users)}."
    text = class_text(one.name, one.expression, one.resource, why)
    return Made(kind="DeviceClass", namespace="", name=one.name, text=text, file="", users=users)


def _told(
    number: int,
    course: Course,
    claims: _Claims,
    classes: Mapping[Serving, tuple[str, ...]],
    unwritten: Mapping[str, str],
) -> Migrated:
    view = course.workload.view
    made = claims.used.get(number)
    decision = course.decision
    if decision.outcome == "class":
        named = tuple(one.name for one, users in classes.items() if course.workload.subject in users)
        decision = replace(decision, needs=replace(decision.needs, classes=named))
    if decision.changes and view.document.file in unwritten:
        reason = f"{decision.reason} The file cannot be changed: {unwritten[view.document.file]}"
        decision = Decision(outcome="cannot", reason=reason, basis=decision.basis)
        made = None
    return Migrated(
        kind=view.kind,
        namespace=view.key.namespace,
        name=view.key.name,
        file=view.document.file,
        line=view.document.position(view.spec if view.custom else ()).line,
        replicas=view.replicas,
        containers=course.workload.containers,
        decision=decision,
        labels=course.where.labels,
        claim_kind=made.kind if made else "",
        claim_name=made.name if made else "",
        notes=notes_of(course),
        custom=view.custom,
        part=view.part,
    )
