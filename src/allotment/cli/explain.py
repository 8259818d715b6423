"""``allot explain``: shows which devices pods and claims get in a cluster, or why they get none.

Without ``-f`` the pending pods of the snapshot or live cluster are explained. Running pods are
not evaluated again; the devices of their claims are in use.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from allotment.api.answer_selection import KIND_WORDS
from allotment.api.explain import answer, read_question
from allotment.api.explain_classes import only_classes
from allotment.api.question import Question
from allotment.cli.explain_class import show_classes
from allotment.cli.explain_manifests import check_arguments, print_manifests
from allotment.cli.inputs.clusters import cluster_errors_of, cluster_of, objects_of
from allotment.cli.next_step import without_other_commands
from allotment.cli.output.console import Screen, folded, open_screen, print_notes
from allotment.cluster.gc_pause import gc_paused
from allotment.errors import InputError
from allotment.explanation import Explanation, lines
from allotment.fleet import FleetError, parse_fleet
from allotment.model.resource import ResourceSlice
from allotment.shell_words import shell_line

EXIT_FITS, EXIT_DOES_NOT_FIT = 0, 1

_DEFAULT_WIDTH: Final = 80
_MANIFESTS: Final = "manifests"


def run(arguments: Namespace) -> int:
    """Explain the objects; return 0 if all fit and start, else 1."""
    if arguments.watch:
        return _watch(arguments)
    with gc_paused():
        return _run(arguments)


def _run(arguments: Namespace) -> int:
    screen = open_screen()
    _take_subject(arguments)
    if arguments.output == _MANIFESTS:
        check_arguments(arguments)
    cluster, name = cluster_of(arguments), arguments.object or ""
    with cluster_errors_of(cluster):
        question = read_question(objects_of(arguments), cluster, name=name, namespace=arguments.namespace)
    if only_classes(question.inputs) and not name:
        print_notes(question.inputs.notes)
        return EXIT_FITS if show_classes(screen, question, arguments.output) else EXIT_DOES_NOT_FIT
    explanation = without_other_commands(answer(question, name))
    if arguments.output == _MANIFESTS:
        return print_manifests(arguments, explanation, question)
    if arguments.output in ("json", "yaml"):
        screen.data(explanation.to_dict(), arguments.output)
    else:
        print_explanation(screen, _noted(explanation, question), wide=arguments.output == "wide")
    return EXIT_FITS if explanation.fits else EXIT_DOES_NOT_FIT


def _watch(arguments: Namespace) -> int:
    screen = open_screen()
    _take_subject(arguments)
    if arguments.output == _MANIFESTS:
        check_arguments(arguments)
    cluster = cluster_of(arguments)
    if cluster.origin.place != "cluster":
        raise InputError("--watch: requires a running cluster", "select one with --context")
    from allotment.cli.live.explain_watch import follow

    def show(explanation: Explanation) -> None:
        if arguments.output in ("json", "yaml"):
            screen.data(explanation.to_dict(), arguments.output)
        else:
            print_explanation(screen, explanation, wide=arguments.output == "wide")

    with cluster_errors_of(cluster):
        follow(Question.of(objects_of(arguments), cluster, arguments.namespace), arguments.object or "", show)
    return EXIT_FITS


def _noted(explanation: Explanation, question: Question) -> Explanation:
    """Return the explanation with a note on devices that are missing in the input, and the option that adds them."""
    if explanation.fits or question.is_live or question.inputs.of(ResourceSlice):
        return explanation
    from allotment.cli.live.connection import lab_options

    note = "the input contains no ResourceSlices: add --cluster FILE or --fleet SPEC (see allot fleet list)"
    if not question.cluster.origin.options and (options := lab_options()):
        note = f"the input contains no ResourceSlices, and the running lab was not used: add {shell_line(options)}"
        explanation = _repeated_in_lab(explanation, question, options)
    return replace(explanation, notes=(*explanation.notes, note))


def _repeated_in_lab(explanation: Explanation, question: Question, options: Sequence[str]) -> Explanation:
    """Return the explanation whose next step is the same question in the lab, instead of on known hardware."""
    files = (word for file in question.files for word in ("-f", file))
    command = shell_line(("allot", "explain", *files, *options))
    answers = (replace(a, next=command) if " --fleet " in a.next else a for a in explanation.answers)
    return replace(explanation, answers=tuple(answers))


def print_explanation(screen: Screen, explanation: Explanation, wide: bool = False) -> None:
    """Print an explanation; without answers its notes, or that nothing is pending."""
    if explanation.answers:
        show(screen, explanation, wide)
        return
    notes = [f"note: {note}" for note in explanation.notes]
    for text in notes or ["No pod is pending, and no claim is waiting for devices."]:
        for line in folded(text, screen.width or _DEFAULT_WIDTH):
            screen.line(line)


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
    if len(words) == 2 and any(words[0].lower() in known for known in KIND_WORDS.values()):
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
