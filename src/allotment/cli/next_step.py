"""The next step after a refusal, or for invalid files, as the commands of ``allot`` print it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from msgspec.structs import replace

from allotment.api.cluster import Cluster
from allotment.explanation import Explanation
from allotment.model.loading import Document
from allotment.model.problems import InputProblem

#: Whether a command can be run where the answer is read.
_CAN_RUN: Final[ContextVar[Callable[[str], bool] | None]] = ContextVar("can_run", default=None)


@contextmanager
def only_commands(can_run: Callable[[str], bool]) -> Iterator[None]:
    """Leave out next steps that cannot be run, as a context manager: a prompt may accept only some commands."""
    token = _CAN_RUN.set(can_run)
    try:
        yield
    finally:
        _CAN_RUN.reset(token)


def without_other_commands(explanation: Explanation) -> Explanation:
    """Return the explanation without the next steps that cannot be run."""
    can_run = _CAN_RUN.get()
    if can_run is None:
        return explanation
    answers = (answer if can_run(answer.next) else replace(answer, next="") for answer in explanation.answers)
    return replace(explanation, answers=tuple(answers))


def reads_stdin(arguments: Namespace) -> bool:
    """Whether the command reads standard input, which another command cannot read again."""
    groups = [*(getattr(arguments, "cluster", None) or ()), *(getattr(arguments, "files", None) or ())]
    return any("-" in _words(group) for group in (*groups, getattr(arguments, "paths", None) or ()))


def cluster_options(arguments: Namespace) -> tuple[str, ...]:
    """The options that select the cluster or hardware, for another command of ``allot``."""
    words = [word for group in arguments.cluster or () for file in _words(group) for word in ("--cluster", file)]
    words += [word for group in arguments.fleet or () for spec in _words(group) for word in ("--fleet", spec)]
    return (*words, *connection_options(arguments))


def _words(group: str | Sequence[str]) -> Sequence[str]:
    """The values of one occurrence of an option, of which some commands accept several."""
    return (group,) if isinstance(group, str) else group


def connection_options(arguments: Namespace) -> tuple[str, ...]:
    """The options of kubectl that select the cluster."""
    words = ("--context", arguments.context) if arguments.context else ()
    return (*words, "--kubeconfig", arguments.kubeconfig) if arguments.kubeconfig else words


# --- files -----------------------------------------------------------------------------------------------------------


def command_for_invalid_files(arguments: Namespace, problems: Sequence[InputProblem]) -> str:
    """Return the command for files that the API server would reject; empty if there is none."""
    files = [*(getattr(arguments, "files", None) or ()), getattr(arguments, "paths", None) or ()]
    paths = tuple(dict.fromkeys(name for group in files for name in group))
    if not paths or not hasattr(arguments, "feature_gates") or reads_stdin(arguments):
        return ""
    from allotment.api.checks import attempt

    connection = connection_options(arguments)
    return attempt.command_for_invalid_files(paths, problems, _release(arguments), arguments.namespace, connection)


def command_for_rejected_objects(arguments: Namespace, rejected: Sequence[Document]) -> str:
    """Return the command for the files of objects that a cluster rejected; empty if there is none."""
    if not rejected or reads_stdin(arguments):
        return ""
    from allotment.api.checks import attempt

    return attempt.command_for_rejected_objects(rejected, _release(arguments), arguments.namespace)


def _release(arguments: Namespace) -> Cluster:
    return Cluster(kube=getattr(arguments, "kube_version", None), gates=getattr(arguments, "feature_gates", ()))


def version_options(arguments: Namespace) -> tuple[str, ...]:
    """The options for the release and its feature gates."""
    words = ("--kube-version", arguments.kube_version) if arguments.kube_version else ()
    return (*words, *(word for gates in arguments.feature_gates for word in ("--feature-gates", gates)))
