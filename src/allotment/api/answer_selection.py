"""Selects the answers that a question is about: those of its manifests, or of the object that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from allotment.api.named_objects import CLAIM_WORDS, POD_WORDS, WORKLOAD_WORDS, workload_named
from allotment.api.question import Question
from allotment.errors import InputError
from allotment.explanation import Answer
from allotment.explanation.subjects import ANY_POD, identity
from allotment.fleet.errors import suggestion
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceSlice
from allotment.shell_words import shell_line

#: The words before the slash of a name (``pod/trainer-0``), by the kind of the answer; workloads have none.
KIND_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": POD_WORDS, "ResourceClaim": CLAIM_WORDS, "": tuple(WORKLOAD_WORDS)
}  # fmt: skip


def select_answers(answers: Iterable[Answer], question: Question, name: str) -> tuple[Answer, ...]:
    """Return the answers for the manifests or, with a name, for the named object. Raises InputError for none."""
    queried = {identity(value) for value in question.inputs.queried}
    every = [answer for answer in answers if not queried or answer.kind == "Pod" or _is_queried(answer, queried)]
    chosen = [answer for answer in every if _is_selected(answer, name, question.namespace)] if name else every
    if name and not chosen:
        raise _not_found(name, every, question)
    if not chosen:
        where = (
            "in these files"
            if question.files
            else "in these manifests"
            if question.manifests is not None
            else "is waiting"
        )
        hint = "specify manifests: allot explain -f FILE"
        if any(isinstance(value, ResourceSlice) for value in question.inputs.queried):
            hint = "allot free -f FILE lists the devices of slices"
        raise InputError(f"nothing to explain: no pod, workload or claim {where}", hint)
    return tuple(map(_with_note, chosen))


def _with_note(answer: Answer) -> Answer:
    if not answer.name.rpartition("/")[2].startswith(ANY_POD):
        return answer
    return replace(answer, notes=(*answer.notes, "no pod uses the template, so it is evaluated with a generated pod"))


def _is_queried(answer: Answer, queried: Iterable[tuple[str, ObjectKey]]) -> bool:
    return any(kind == answer.kind and str(key) == answer.name for kind, key in queried)


def _names(answer: Answer) -> Iterable[tuple[str, str]]:
    """Yield kind and full name of all objects by which an answer can be selected."""
    yield answer.kind, answer.name
    if answer.owner:
        yield "", answer.owner.rpartition(" ")[2]
    yield from (("ResourceClaim", claim.name) for claim in answer.claims)


def _is_selected(answer: Answer, subject: str, namespace: str | None) -> bool:
    prefix, slash, rest = subject.partition("/")
    kinds = [kind for kind, words in KIND_WORDS.items() if slash and prefix.lower() in words]
    wanted = rest if kinds else subject
    for kind, full in _names(answer):
        own_namespace, _, name = full.rpartition("/")
        if kinds and kind not in kinds:
            continue
        if wanted == full or (wanted == name and namespace in (None, own_namespace)):
            return True
    return False


def _not_found(subject: str, answers: Sequence[Answer], question: Question) -> InputError:
    problem = f"pod or claim not found: {subject!r}"
    prefix, slash, name = subject.rpartition("/")
    if (
        not slash
        and question.is_live
        and (workload := workload_named(name, question.namespace, question.inputs.cluster))
    ):
        where = ("-n", question.namespace) if question.namespace else ()
        return InputError(problem, shell_line(("allot", "explain", workload, *where, *question.options)))
    if slash and not any(prefix.lower() in words for words in KIND_WORDS.values()):
        return InputError(
            problem, f"{prefix} is not a kind with pods; use pod/NAME, claim/NAME, deploy/NAME, job/NAME, sts/NAME …"
        )
    known = dict.fromkeys(full.rpartition("/")[2] for answer in answers for _, full in _names(answer))
    listed = ", ".join(list(known)[:5])
    return InputError(problem, suggestion(name, known) or (f"known: {listed}" if known else ""))
