"""`allot check` as the next step for manifests: with the fixes that help, which are tried before they are proposed.

The fixes are applied to the texts, which are validated and explained again. The files themselves are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from allotment.api.checks.fixed_texts import fixed_by
from allotment.api.checks.options import CheckArguments, check_options
from allotment.api.cluster import Cluster
from allotment.api.manifest_files import read_manifest_files
from allotment.api.objects.validation import validate
from allotment.api.question import Question
from allotment.cel.validation_context import validation_context
from allotment.explanation import explain
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.loading import Document, LoadResult, load_text
from allotment.model.meta import Object
from allotment.model.problems import InputProblem
from allotment.model.resource import ResourceSlice
from allotment.model.validation.admin_access import LABEL
from allotment.shell_words import shell_line
from allotment.tools.check.bundle import Bundle, TargetCluster
from allotment.tools.check.finding import Finding
from allotment.tools.check.hardware.smallest_fleet import smallest_fleet

#: The field that is rejected unless the namespace has a label.
_ADMIN_ACCESS: Final = ".adminAccess"


def command_for_invalid_files(
    files: Sequence[str],
    problems: Sequence[InputProblem],
    release: Cluster,
    namespace: str | None,
    connection: Sequence[str],
) -> str:
    """Return the command for files that the API server would reject: `allot check`, with fixes if it accepts them then.

    If it only misses a label of their namespaces, it is the one of kubectl that sets the label; ``connection`` are its
    options for the cluster.
    """
    attempt = CheckAttempt(files, release, namespace)
    if all(problem.path.endswith(_ADMIN_ACCESS) for problem in problems):
        return attempt.command_to_allow_admin_access(connection)
    return attempt.command_for_invalid_files()


def command_for_rejected_objects(rejected: Sequence[Document], release: Cluster, namespace: str | None) -> str:
    """Return `allot check` for the files of objects that a cluster rejected, with fixes if they are accepted then.

    It is empty if `allot check` finds no error in one of these objects.
    """
    attempt = CheckAttempt(tuple(dict.fromkeys(document.file for document in rejected)), release, namespace)
    errors = {(finding.where.file, finding.subject) for finding in attempt.errors}
    if not any((document.file, f"{document.kind} {document.name}") in errors for document in rejected):
        return ""
    return attempt.command_for_invalid_files()


class CheckAttempt:
    """`allot check` of files. ``release``: of the cluster; ``question``: None if only the files matter."""

    def __init__(
        self, files: Sequence[str], release: Cluster, namespace: str | None, question: Question | None = None
    ) -> None:
        self._question, self._paths, self._namespace = question, files, namespace
        self._after_fixes: dict[bool, frozenset[str]] = {}
        cluster = question.cluster.origin.options if question is not None else ()
        where = ("-n", namespace) if namespace else ()
        self._words = ("allot", "check", *files, *cluster, *release.source.version_options, *where)
        options = check_options(CheckArguments(release, namespace=namespace or ""))
        if question is not None:  # its cluster has been read already
            settings = replace(options.settings, features=question.inputs.features)
            objects, origin = question.inputs.cluster, question.cluster.origin
            world = TargetCluster(objects, origin.place == "hardware") if objects else options.world
            options = replace(options, world=world, settings=settings)
        self._options = options
        self._files = read_manifest_files(files, options.is_excluded)
        self._bundle = Bundle(
            self._files.documents, options.settings, options.world, self._files.problems, options.namespace
        )

    @classmethod
    def of(cls, question: Question) -> CheckAttempt:
        """Return `allot check` of the manifests of a question, which are files."""
        source = question.cluster.source
        return cls(question.files, Cluster(kube=source.kube, gates=source.gates), question.namespace, question)

    def command(self, name: str) -> str:
        """Return the command that makes a pod or claim fit, or reports errors; empty if there is none."""
        if self._question is not None and not self._question.inputs.of(ResourceSlice):
            return self._on_known_hardware or self._command(self._fits_known_hardware)
        return self._command(lambda unsafe: name in self._fitting(unsafe))

    def command_for_invalid_files(self) -> str:
        """Return the command after which the API server accepts the files, or which reports errors; empty if none does.

        For a text that is not YAML there is none: it has to be edited first.
        """
        if self._bundle.problems:
            return ""
        return self._command(lambda unsafe: self._accepted(unsafe) is not None)

    def command_to_allow_admin_access(self, connection: Sequence[str]) -> str:
        """Return the commands that label the namespaces of the claims that request it."""
        claims = (view for view in self._bundle.claims if any(request.admin_access for request in view.requests))
        namespaces = sorted({view.key.namespace for view in claims})
        words = (("kubectl", *connection, "label", "namespace", name, f"{LABEL}=true") for name in namespaces)
        return " && ".join(map(shell_line, words))

    def _command(self, helps: Callable[[bool], bool]) -> str:
        if helps(False):
            return shell_line((*self._words, "--fix"))
        if helps(True):
            return shell_line((*self._words, "--fix", "--unsafe-fixes"))
        return shell_line(self._words) if self.errors else ""

    def _fitting(self, unsafe: bool) -> frozenset[str]:
        """Return the pods and claims that fit after the fixes."""
        if unsafe not in self._after_fixes:
            self._after_fixes[unsafe] = self._evaluate(unsafe)
        return self._after_fixes[unsafe]

    def _evaluate(self, unsafe: bool) -> frozenset[str]:
        assert self._question is not None
        values = self._accepted(unsafe)
        if values is None:
            return frozenset()
        inputs = self._question.inputs
        objects = objects_to_explain(inputs.cluster, values)
        others = other_pods(inputs.cluster, objects)
        found = explain(objects, inputs.features, 0, others, default_namespace=self._namespace or "default")
        return frozenset(answer.name for answer in found.answers if answer.fits)

    def _accepted(self, unsafe: bool) -> tuple[Object, ...] | None:
        """Return the objects after the fixes; None if nothing is fixed, or the API server rejects them."""
        texts = fixed_by(self._options, self._files, self._bundle, unsafe).texts
        documents: list[Document] = []
        for file, source in self._files.sources.items():
            loaded = load_text(texts.get(file, source), file)
            if loaded.problems:
                return None
            documents += loaded.documents
        context = validation_context(self._options.settings.features)
        cluster = self._question.inputs.cluster if self._question is not None else ()
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
        assert self._question is not None
        fleet = self._smallest_fleet(self._question.inputs.queried)
        files = (word for path in self._paths for word in ("-f", path))
        return shell_line(("allot", "explain", *files, "--fleet", fleet)) if fleet else ""

    def _fits_known_hardware(self, unsafe: bool) -> bool:
        """Return whether known hardware has the devices after the fixes."""
        values = self._accepted(unsafe)
        return values is not None and bool(self._smallest_fleet(values))

    def _smallest_fleet(self, values: Sequence[Object]) -> str:
        assert self._question is not None
        return smallest_fleet(values, self._question.inputs.features) or ""
