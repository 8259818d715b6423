"""``allot explain``: shows which devices pods and claims get in a cluster, or why they get none.

Without ``-f`` the pending pods of the snapshot or live cluster are explained. Running pods are
not evaluated again; the devices of their claims are in use.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from allotment.api.inputs import Inputs
from allotment.api.unread_resources import NEEDED, OF_DEVICES, OF_PODS, must_know
from allotment.cli.explain_class import only_classes, show_classes
from allotment.cli.explain_manifests import check_arguments, print_manifests
from allotment.cli.inputs.objects import is_live, read_inputs
from allotment.cli.next_step import add_next_steps, origin_of
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.cluster.gc_pause import gc_paused
from allotment.errors import InputError
from allotment.explanation import Answer, Explanation, containers_without_device, explain, lines
from allotment.explanation.subjects import ANY_POD, identity, is_relevant, objects_to_explain, other_pods
from allotment.fleet import FleetError, parse_fleet
from allotment.fleet.errors import suggestion
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.model.workloads import template_of
from allotment.tools.unread import unread_notes, unread_resources

EXIT_FITS, EXIT_DOES_NOT_FIT = 0, 1

#: Prefixes of names: ``pod/trainer-0``.
_KINDS = {
    "Pod": ("pod", "pods", "po"),
    "ResourceClaim": ("claim", "claims", "resourceclaim", "resourceclaims"),
    "": ("deployment", "deploy", "job", "statefulset", "sts", "daemonset", "ds", "replicaset", "rs"),
}
_DEFAULT_WIDTH = 80
_MANIFESTS = "manifests"
_NO_SLICES = "the input contains no ResourceSlices: add --cluster FILE or --fleet SPEC (see allot fleet list)"


def run(arguments: Namespace) -> int:
    """Explain the objects; return 0 if all fit and start, else 1."""
    if arguments.watch:
        return _run(arguments)
    with gc_paused():
        return _run(arguments)


def _run(arguments: Namespace) -> int:
    screen = open_screen()
    _take_subject(arguments)
    if arguments.output == _MANIFESTS:
        check_arguments(arguments)
    if is_live(arguments):
        return _live(screen, arguments)
    if arguments.watch:
        raise InputError("--watch: requires a running cluster", "select one with --context")
    inputs = read_inputs(arguments)
    if (classes := only_classes(inputs)) and arguments.object is None:
        select = show_classes(screen, inputs, classes, arguments.output, origin_of(arguments, inputs))
        return EXIT_FITS if select else EXIT_DOES_NOT_FIT
    explanation = add_next_steps(_explained(inputs, arguments), arguments, inputs)
    if arguments.output == _MANIFESTS:
        return print_manifests(arguments, explanation, inputs)
    if arguments.output not in ("json", "yaml") and not explanation.fits and not inputs.of(ResourceSlice):
        explanation = replace(explanation, notes=(*explanation.notes, _NO_SLICES))
    _write(screen, explanation, arguments.output)
    return EXIT_FITS if explanation.fits else EXIT_DOES_NOT_FIT


def _live(screen: Screen, arguments: Namespace) -> int:
    from allotment.cli.live.explain import explain_on, explain_once

    explained: list[Inputs] = []

    def answer(inputs: Inputs, by_name: bool) -> Explanation:
        explained.append(inputs)
        if not inputs.queried:
            must_know(inputs.cluster, *OF_PODS, "resourceclaims")
        if not inputs.queried and not any(_is_pending(value) for value in inputs.cluster) and arguments.object is None:
            return Explanation()
        return _explained(inputs, arguments, by_name)

    if arguments.watch:
        explain_on(arguments, answer, lambda explanation: _write(screen, explanation, arguments.output))
        return EXIT_FITS
    explanation = explain_once(arguments, answer)
    if arguments.output == _MANIFESTS:
        # A pod that is bound is not explained again.
        return print_manifests(arguments, explanation, explained[0] if explained else None)
    _write(screen, explanation, arguments.output)
    return EXIT_FITS if explanation.fits else EXIT_DOES_NOT_FIT


def _is_pending(value: Object) -> bool:
    """Return whether an object of a live cluster waits for devices or a node."""
    if isinstance(value, ResourceClaim):
        return value.status.allocation is None
    return isinstance(value, Pod) and is_relevant(value, only_state=False)


def _explained(inputs: Inputs, arguments: Namespace, by_name: bool = True) -> Explanation:
    must_know(inputs.cluster, *OF_DEVICES, *(() if inputs.queried else OF_PODS))
    values = objects_to_explain(inputs.cluster, inputs.queried)
    others = other_pods(inputs.cluster, values)
    found = explain(values, inputs.features, others=others, default_namespace=arguments.namespace or "default")
    explanation = narrow(found, inputs, arguments, by_name)
    # Of one object in a cluster, the caller knows all of its pods, also those that run.
    of_all = by_name or inputs.queried
    shown = {name.rpartition(" ")[2] for a in explanation.answers for name in (a.name, a.owner)} if of_all else set()
    default = arguments.namespace or "default"
    pods = [
        value
        for value in values
        if f"{value.metadata.namespace or default}/{value.metadata.name}" in shown
        and not value.metadata.name.startswith(ANY_POD)
        and (isinstance(value, Pod) or template_of(value) is not None)
    ]
    unread = unread_resources(values, NEEDED)
    notes = dict.fromkeys((*explanation.notes, *containers_without_device(values, pods), *unread_notes(unread)))
    return replace(explanation, notes=tuple(notes), unread=unread)


def _write(screen: Screen, explanation: Explanation, output: str | None) -> None:
    if output in ("json", "yaml"):
        data = {"fits": explanation.fits, **explanation.to_dict()}
        if not explanation.unread:
            del data["unread"]
        screen.data(data, output)
    elif not explanation.answers:
        notes = [f"note: {note}" for note in explanation.notes]
        for text in notes or ["No pod is pending, and no claim is waiting for devices."]:
            for line in folded(text, screen.width or _DEFAULT_WIDTH):
                screen.line(line)
    else:
        show(screen, explanation, wide=output == "wide")


def show(screen: Screen, explanation: Explanation, wide: bool = False) -> None:
    """Print an explanation, with the verdicts in colour."""
    for line in lines(explanation, screen.width or _DEFAULT_WIDTH, wide):
        if not line.startswith(" "):
            line = line.replace(" does not fit", screen.paint(" does not fit", "red"), 1)
            line = line.replace(" fits", screen.paint(" fits", "green"), 1)
            line = line.replace(" does not start", screen.paint(" does not start", "red"), 1)
            if "does not start" not in line:
                line = line.replace(" is on node", screen.paint(" is on node", "green"), 1)
        screen.line(line)


def _take_subject(arguments: Namespace) -> None:
    """Set the named object: ``pod/trainer-0`` or, as in kubectl, ``pod trainer-0``. In ``-f app.yaml trainer-0`` and
    ``--fleet t4 trainer-0`` the last word is the pod, unless such a file or machine exists."""
    arguments.object = _named(arguments.object)
    for group in (*arguments.files, *arguments.cluster):
        last = group[-1]
        if arguments.object is None and len(group) > 1 and "." not in last and last != "-" and not Path(last).exists():
            arguments.object = group.pop()
    for group in arguments.fleet:
        if arguments.object is None and len(group) > 1 and not _is_hardware(group[-1]):
            arguments.object = group.pop()


def _named(words: Sequence[str]) -> str | None:
    """Return the only name of several words. Raises InputError."""
    if len(words) == 2 and any(words[0].lower() in known for known in _KINDS.values()):
        return "/".join(words)
    if len(words) > 1:
        raise InputError(f"expected one name, found {' '.join(words)}", f"allot explain {words[0]}")
    return words[0] if words else None


def _is_hardware(word: str) -> bool:
    """Return whether a word after ``--fleet`` is a machine, or a misspelt one."""
    try:
        parse_fleet([word])
    except FleetError as error:
        return any(sign in word for sign in "=:,") or error.hint.startswith("did you mean")
    return True


def narrow(explanation: Explanation, inputs: Inputs, arguments: Namespace, by_name: bool = True) -> Explanation:
    """Return the answers for the objects of ``-f`` or (``by_name``) the named object. Raises InputError."""
    queried = {identity(value) for value in inputs.queried}
    answers = [a for a in explanation.answers if not queried or a.kind == "Pod" or _is_queried(a, queried)]
    if arguments.object is not None and by_name:
        everything = answers
        answers = [answer for answer in everything if _is_selected(answer, arguments.object, arguments.namespace)]
        if not answers:
            raise _nothing_called(arguments.object, everything)
    answers = [_with_note(answer) for answer in answers]
    if not answers:
        where = "in these files" if arguments.files else "is waiting"
        hint = "specify manifests with -f FILE"
        if any(isinstance(value, ResourceSlice) for value in inputs.queried):
            hint = "allot free -f FILE lists the devices of slices"
        raise InputError(f"nothing to explain: no pod, workload or claim {where}", hint)
    return Explanation(answers=tuple(answers), notes=explanation.notes)


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
    kinds = [kind for kind, words in _KINDS.items() if slash and prefix.lower() in words]
    wanted = rest if kinds else subject
    for kind, full in _names(answer):
        own_namespace, _, name = full.rpartition("/")
        if kinds and kind not in kinds:
            continue
        if wanted == full or (wanted == name and namespace in (None, own_namespace)):
            return True
    return False


def _nothing_called(subject: str, answers: Iterable[Answer]) -> InputError:
    known: dict[str, Any] = {full.rpartition("/")[2]: None for answer in answers for _, full in _names(answer)}
    listed = ", ".join(list(known)[:5])
    hint = suggestion(subject.rpartition("/")[2], known) or (f"known: {listed}" if known else "")
    prefix, slash, _ = subject.partition("/")
    if slash and not any(prefix.lower() in words for words in _KINDS.values()):
        hint = f"{prefix} is not a kind with pods; use pod/NAME, claim/NAME, deploy/NAME, job/NAME, sts/NAME …"
    return InputError(f"pod or claim not found: {subject!r}", hint)
