"""The next command after `allot check` finds errors: with fixes if there are any, else that of `allot explain`.

After warnings without errors it is the command with fixes, if there are any.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from allotment.cli.check.files import Files
from allotment.cli.check.fixed_texts import fixed_by
from allotment.cli.check.options import Options
from allotment.cli.next_step import cluster_options, connection_options, object_name, reads_stdin, version_options
from allotment.explanation import Answer
from allotment.explanation.next_step import Origin, next_step
from allotment.model.meta import Object
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.simulation.result import simulation_report

#: Maximum number of documents whose fixes are tried; of more, ``--diff`` shows them.
_MOST_TRIED: Final = 200
_PENDING: Final = "P501"
#: The rule for objects that exist with another immutable spec.
_TO_REPLACE: Final = "M413"


def next_command(
    arguments: Namespace, options: Options, files: Files, bundle: Bundle, findings: Sequence[Finding]
) -> str:
    """Return the command for these findings; empty if there is none."""
    if arguments.diff:
        return ""
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        fixable = [finding for finding in findings if finding.level == "warning" and finding.fix is not None]
        return _fixes(arguments, options, files, bundle, fixable) if fixable else ""
    fixes = _fixes(arguments, options, files, bundle, errors)
    others = [finding for finding in errors if finding.code != _PENDING]
    to_replace = [finding.where.file for finding in errors if finding.code == _TO_REPLACE]
    if not others and (answer := _first_pending(bundle)) is not None:
        return next_step(answer, _origin(arguments, bundle, fixes))
    if not fixes and len(to_replace) == len(errors) and not reads_stdin(arguments):
        return _replacement(arguments, dict.fromkeys(to_replace))
    return fixes or shlex.join(("allot", "rule", errors[0].code))


def _replacement(arguments: Namespace, files: Iterable[str]) -> str:
    """Return the command that deletes the objects of files and creates them again."""
    namespace = ("-n", arguments.namespace) if arguments.namespace else ()
    paths = (word for file in files for word in ("-f", file))
    return shlex.join(("kubectl", *connection_options(arguments), *namespace, "replace", "--force", *paths))


def _fixes(arguments: Namespace, options: Options, files: Files, bundle: Bundle, wrong: Sequence[Finding]) -> str:
    """Return the command line with the options that fix one of the findings, which have the same level, or that show
    fixes; empty if none can be fixed.
    """
    if reads_stdin(arguments):
        return ""
    if len(bundle.documents) > _MOST_TRIED:
        kinds = {finding.fix.safe for finding in wrong if finding.fix is not None}
        show = ("--diff", *(() if True in kinds else ("--unsafe-fixes",)))
        return shlex.join(("allot", *arguments.words, *show)) if kinds and not arguments.fix else ""
    for more, unsafe in _attempts(arguments):
        fixed = fixed_by(options, files, bundle, unsafe)
        if fixed.texts and any(finding.level == wrong[0].level for finding in fixed.applied):
            return shlex.join(("allot", *arguments.words, *more))
    return ""


def _attempts(arguments: Namespace) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the options to add, and whether they include unsafe fixes."""
    if not arguments.fix:
        yield ("--fix",), False
        yield ("--fix", "--unsafe-fixes"), True
    elif not arguments.unsafe_fixes:
        yield ("--unsafe-fixes",), True


def _first_pending(bundle: Bundle) -> Answer | None:
    report = simulation_report(bundle, STATIC_RULES)
    pending = (p for p in report.outcome.pending if not report.is_explained(bundle, p)) if report is not None else ()
    return next((group.answers[0] for group in pending), None)


def _origin(arguments: Namespace, bundle: Bundle, fixes: str) -> Origin:
    """Return where the objects of the simulation are from."""
    written = [manifest.value for manifest in bundle.manifests.values() if isinstance(manifest.value, Object)]
    cluster = bundle.cluster.objects if bundle.cluster is not None else ()
    is_live = bool(arguments.context or arguments.kubeconfig)
    return Origin(
        objects={object_name(value): value for value in (*cluster, *written)},
        files=tuple(arguments.paths or ["."]),
        in_files=frozenset(map(object_name, written)),
        place="cluster" if is_live else "snapshot" if arguments.cluster else "hardware",
        options=(*cluster_options(arguments), *version_options(arguments)),
        connection=connection_options(arguments),
        for_files=lambda name: fixes,
        is_repeatable=not reads_stdin(arguments),
    )
