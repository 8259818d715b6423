"""The command after a check that finds errors: with fixes if there are any, else that of ``allot explain``.

After warnings without errors it is the command with fixes, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from allotment.api.checks.fixed_texts import fixed_by
from allotment.api.checks.options import CheckOptions
from allotment.api.clusters.source import ClusterOrigin
from allotment.api.manifest_files import ManifestFiles
from allotment.api.named_objects import object_name
from allotment.explanation import Answer
from allotment.explanation.next_step import Origin, next_step
from allotment.model.meta import Object
from allotment.shell_words import shell_line
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.rules.meaning.no_such_namespace import missing_namespaces
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.simulation.result import simulation_report

#: Maximum number of documents whose fixes are tried; of more, ``--diff`` shows them.
_MOST_TRIED: Final = 200
_PENDING: Final = "P501"
#: The rule for objects that exist with another immutable spec.
_TO_REPLACE: Final = "M413"


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """A check as a command line. ``words``: those after ``allot``, to which the options for fixes are added.

    ``fixes`` and ``guesses``: whether the words contain these options already. ``cluster`` and ``versions``: how other
    commands select the cluster and its release. ``namespace``: the stated one.
    """

    words: tuple[str, ...]
    cluster: ClusterOrigin
    versions: tuple[str, ...] = ()
    namespace: str = ""
    fixes: bool = False
    guesses: bool = False


def next_command(
    command: CheckCommand, options: CheckOptions, files: ManifestFiles, bundle: Bundle, findings: Sequence[Finding]
) -> str:
    """Return the command for these findings; empty if there is none."""
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        fixable = [finding for finding in findings if finding.level == "warning" and finding.fix is not None]
        return _fixes(command, options, files, bundle, fixable) if fixable else ""
    fixes = _fixes(command, options, files, bundle, errors)
    others = [finding for finding in errors if finding.code != _PENDING]
    to_replace = [finding.where.file for finding in errors if finding.code == _TO_REPLACE]
    if not others and (answer := _first_pending(bundle)) is not None:
        return next_step(answer, _origin(command, files, bundle, fixes))
    if not fixes and len(to_replace) == len(errors) and _is_repeatable(command, files):
        return _replacement(command, dict.fromkeys(to_replace))
    if not fixes and (missing := missing_namespaces(bundle)):
        return shell_line(("kubectl", *command.cluster.connection, "create", "namespace", next(iter(missing))))
    return fixes or shell_line(("allot", "rule", errors[0].code))


def _is_repeatable(command: CheckCommand, files: ManifestFiles) -> bool:
    """Return whether another command can read the files and the cluster again, which standard input is not."""
    return files.is_repeatable and command.cluster.is_repeatable


def _replacement(command: CheckCommand, files: Iterable[str]) -> str:
    """Return the command that deletes the objects of files and creates them again."""
    namespace = ("-n", command.namespace) if command.namespace else ()
    paths = (word for file in files for word in ("-f", file))
    return shell_line(("kubectl", *command.cluster.connection, *namespace, "replace", "--force", *paths))


def _fixes(
    command: CheckCommand, options: CheckOptions, files: ManifestFiles, bundle: Bundle, wrong: Sequence[Finding]
) -> str:
    """Return the command line with the options that fix one of the findings, which have the same level, or that show
    fixes; empty if none can be fixed.
    """
    if not _is_repeatable(command, files):
        return ""
    if len(bundle.documents) > _MOST_TRIED:
        kinds = {finding.fix.safe for finding in wrong if finding.fix is not None}
        show = ("--diff", *(() if True in kinds else ("--unsafe-fixes",)))
        return shell_line(("allot", *command.words, *show)) if kinds and not command.fixes else ""
    for more, unsafe in _attempts(command):
        fixed = fixed_by(options, files, bundle, unsafe)
        if fixed.texts and any(finding.level == wrong[0].level for finding in fixed.applied):
            return shell_line(("allot", *command.words, *more))
    return ""


def _attempts(command: CheckCommand) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the options to add, and whether they include unsafe fixes."""
    if not command.fixes:
        yield ("--fix",), False
        yield ("--fix", "--unsafe-fixes"), True
    elif not command.guesses:
        yield ("--unsafe-fixes",), True


def _first_pending(bundle: Bundle) -> Answer | None:
    report = simulation_report(bundle, STATIC_RULES)
    pending = (p for p in report.outcome.pending if not report.is_explained(bundle, p)) if report is not None else ()
    return next((group.answers[0] for group in pending), None)


def _origin(command: CheckCommand, files: ManifestFiles, bundle: Bundle, fixes: str) -> Origin:
    """Return where the objects of the simulation are from."""
    written = [manifest.value for manifest in bundle.manifests.values() if isinstance(manifest.value, Object)]
    cluster = bundle.cluster.objects if bundle.cluster is not None else ()
    return Origin(
        objects={object_name(value): value for value in (*cluster, *written)},
        files=files.names,
        in_files=frozenset(map(object_name, written)),
        place=command.cluster.place,
        options=(*command.cluster.options, *command.versions),
        connection=command.cluster.connection,
        for_files=lambda name: fixes,
        is_repeatable=_is_repeatable(command, files),
    )
