"""The next step after a refusal, for the objects of a command line.

For objects in files it is `allot check` with the fixes that make the pods fit: they are applied to the texts, which are
read and explained again. The files themselves are not changed.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import Final

from msgspec.structs import replace as replace_fields

from allotment.api.inputs import Inputs
from allotment.api.validation import validate
from allotment.cel.validation_context import validation_context
from allotment.cli.arguments.check import add_check
from allotment.cli.inputs.objects import is_live
from allotment.cli.parser import Parser
from allotment.explanation import Explanation, explain
from allotment.explanation.next_step import Origin, Place, no_file_command, with_next_steps
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.loading import Document, LoadResult, load_text
from allotment.model.meta import Object
from allotment.model.problems import InputProblem
from allotment.model.resource import ResourceSlice
from allotment.model.validation.admin_access import LABEL
from allotment.tools.check.finding import Finding

#: The field that is rejected unless the namespace has a label.
_ADMIN_ACCESS: Final = ".adminAccess"


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


def add_next_steps(explanation: Explanation, arguments: Namespace, inputs: Inputs) -> Explanation:
    """The explanation with the next step of each refusal."""
    if explanation.fits:
        return explanation
    found = with_next_steps(explanation, origin_of(arguments, inputs))
    can_run = _CAN_RUN.get()
    if can_run is None:
        return found
    answers = (answer if can_run(answer.next) else replace_fields(answer, next="") for answer in found.answers)
    return replace_fields(found, answers=tuple(answers))


def origin_of(arguments: Namespace, inputs: Inputs) -> Origin:
    """Where the objects of ``-f``, ``--cluster``, ``--fleet`` or a live cluster are from."""
    files = tuple(name for group in arguments.files for name in group)
    place: Place = "cluster" if is_live(arguments) else "snapshot" if arguments.cluster else "hardware"
    return Origin(
        objects={object_name(value): value for value in (*inputs.cluster, *inputs.queried)},
        files=files,
        in_files=frozenset(map(object_name, inputs.queried)),
        place=place,
        options=(*cluster_options(arguments), *version_options(arguments)),
        connection=connection_options(arguments),
        for_files=_command_for_files(arguments, inputs, files) if files else no_file_command,
        is_repeatable=not reads_stdin(arguments),
    )


def object_name(value: Object) -> str:
    """Kind and name, as changes name their object: ``Pod ml/trainer``."""
    return f"{type(value).__name__} {value.key}"


def reads_stdin(arguments: Namespace) -> bool:
    """Whether the command reads standard input, which another command cannot read again."""
    groups = [*(arguments.cluster or ()), *(getattr(arguments, "files", None) or ())]
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


def _command_for_files(arguments: Namespace, inputs: Inputs, paths: Sequence[str]) -> Callable[[str], str]:
    attempts: list[_Attempt] = []

    def command(name: str) -> str:
        if not attempts:
            attempts.append(_Attempt(arguments, inputs, paths))
        return attempts[0].command(name)

    return command


def command_for_invalid_files(arguments: Namespace, problems: Sequence[InputProblem]) -> str:
    """The command for files that the API server would reject: `allot check`, with fixes if it accepts them then.

    If it only misses a label of their namespaces, it is the one that sets the label.
    """
    files = [*(getattr(arguments, "files", None) or ()), getattr(arguments, "paths", None) or ()]
    paths = tuple(dict.fromkeys(name for group in files for name in group))
    if not paths or not hasattr(arguments, "feature_gates") or reads_stdin(arguments):
        return ""
    attempt = _Attempt(arguments, None, paths)
    if all(problem.path.endswith(_ADMIN_ACCESS) for problem in problems):
        return attempt.command_to_allow_admin_access(connection_options(arguments))
    return attempt.command_for_invalid_files()


def command_for_rejected_objects(arguments: Namespace, rejected: Sequence[Document]) -> str:
    """`allot check` for the files of objects that a cluster rejected, with fixes if they are accepted then.

    It is empty if `allot check` finds no error in one of these objects.
    """
    files = tuple(dict.fromkeys(document.file for document in rejected))
    # Options of `allot check` that the command does not have.
    absent: dict[str, object] = {"kube_version": None, "feature_gates": [], "cluster": None, "fleet": None}
    arguments = Namespace(**{**absent, **vars(arguments)})
    if not files or reads_stdin(arguments):
        return ""
    attempt = _Attempt(arguments, None, files)
    errors = {(finding.where.file, finding.subject) for finding in attempt.errors}
    if not any((document.file, f"{document.kind} {document.name}") in errors for document in rejected):
        return ""
    return attempt.command_for_invalid_files()


def _arguments_of_check(words: Sequence[str]) -> Namespace:
    parser = Parser()
    add_check(parser.add_subparsers())
    return parser.parse_args(["check", *words])


class _Attempt:
    """`allot check` of the files of a command line.

    ``inputs``: the cluster that was read for it, and its devices; None if only the files matter.
    """

    def __init__(self, arguments: Namespace, inputs: Inputs | None, paths: Sequence[str]) -> None:
        from allotment.cli.check.files import read_files
        from allotment.cli.check.options import options_of
        from allotment.tools.check.bundle import Bundle, TargetCluster

        self._inputs, self._paths, self._namespace = inputs, paths, arguments.namespace
        self._after_fixes: dict[bool, frozenset[str]] = {}
        words = (*version_options(arguments), *(("-n", arguments.namespace) if arguments.namespace else ()))
        self._words = ("allot", "check", *paths, *(cluster_options(arguments) if inputs is not None else ()), *words)
        # Without the cluster, which would be read again.
        options = options_of(_arguments_of_check([*paths, *words]))
        if inputs is not None:
            settings = replace(options.settings, features=inputs.features)
            world = TargetCluster(inputs.cluster, bool(arguments.fleet)) if inputs.cluster else options.world
            options = replace(options, world=world, settings=settings)
        self._options = options
        self._files = read_files(paths, options.is_excluded)
        self._bundle = Bundle(
            self._files.documents, options.settings, options.world, self._files.problems, options.namespace
        )

    def command(self, name: str) -> str:
        """The command that makes a pod or claim fit, or reports errors; empty if there is none."""
        if self._inputs is not None and not self._inputs.of(ResourceSlice):
            return self._on_known_hardware or self._command(self._fits_known_hardware)
        return self._command(lambda unsafe: name in self._fitting(unsafe))

    def command_for_invalid_files(self) -> str:
        """The command after which the API server accepts the files, or which reports errors; empty if there is none.

        For a text that is not YAML there is none: it has to be edited first.
        """
        if self._bundle.problems:
            return ""
        return self._command(lambda unsafe: self._accepted(unsafe) is not None)

    def command_to_allow_admin_access(self, connection: Sequence[str]) -> str:
        """The commands that label the namespaces of the claims that request it."""
        claims = (view for view in self._bundle.claims if any(request.admin_access for request in view.requests))
        namespaces = sorted({view.key.namespace for view in claims})
        words = (("kubectl", *connection, "label", "namespace", name, f"{LABEL}=true") for name in namespaces)
        return " && ".join(map(shlex.join, words))

    def _command(self, helps: Callable[[bool], bool]) -> str:
        if helps(False):
            return shlex.join((*self._words, "--fix"))
        if helps(True):
            return shlex.join((*self._words, "--fix", "--unsafe-fixes"))
        return shlex.join(self._words) if self.errors else ""

    def _fitting(self, unsafe: bool) -> frozenset[str]:
        """The pods and claims that fit after the fixes."""
        if unsafe not in self._after_fixes:
            self._after_fixes[unsafe] = self._evaluate(unsafe)
        return self._after_fixes[unsafe]

    def _evaluate(self, unsafe: bool) -> frozenset[str]:
        assert self._inputs is not None
        values = self._accepted(unsafe)
        if values is None:
            return frozenset()
        cluster = self._inputs.cluster
        objects = objects_to_explain(cluster, values)
        namespace = self._namespace or "default"
        others = other_pods(cluster, objects)
        found = explain(objects, self._inputs.features, 0, others, default_namespace=namespace)
        return frozenset(answer.name for answer in found.answers if answer.fits)

    def _accepted(self, unsafe: bool) -> tuple[Object, ...] | None:
        """The objects of the files after the fixes; None if nothing is fixed, or the API server rejects them."""
        from allotment.cli.check.fixed_texts import fixed_by

        texts = fixed_by(self._options, self._files, self._bundle, unsafe).texts
        documents: list[Document] = []
        for file, source in self._files.sources.items():
            loaded = load_text(texts.get(file, source), file)
            if loaded.problems:
                return None
            documents += loaded.documents
        context = validation_context(self._options.settings.features)
        cluster = self._inputs.cluster if self._inputs is not None else ()
        values, problems = validate(LoadResult(documents, []), context, self._namespace, cluster)
        return values if texts and not problems else None

    @cached_property
    def errors(self) -> tuple[Finding, ...]:
        """The errors that `allot check` finds without fixes."""
        found = self._options.policy.evaluate(self._bundle, self._files.sources).findings
        return tuple(finding for finding in found if finding.level == "error")

    @cached_property
    def _on_known_hardware(self) -> str:
        """The same question on the smallest known hardware that has the devices."""
        assert self._inputs is not None
        fleet = self._smallest_fleet(self._inputs.queried)
        files = (word for path in self._paths for word in ("-f", path))
        return shlex.join(("allot", "explain", *files, "--fleet", fleet)) if fleet else ""

    def _fits_known_hardware(self, unsafe: bool) -> bool:
        """Whether known hardware has the devices after the fixes."""
        values = self._accepted(unsafe)
        return values is not None and bool(self._smallest_fleet(values))

    def _smallest_fleet(self, values: Sequence[Object]) -> str:
        from allotment.tools.check.hardware.smallest_fleet import smallest_fleet

        assert self._inputs is not None
        return smallest_fleet(values, self._inputs.features) or ""


def version_options(arguments: Namespace) -> tuple[str, ...]:
    """The options for the release and its feature gates."""
    words = ("--kube-version", arguments.kube_version) if arguments.kube_version else ()
    return (*words, *(word for gates in arguments.feature_gates for word in ("--feature-gates", gates)))
