"""Validates loaded manifests, and converts them to values.

New objects are validated as the API server does on creation: unknown fields, defaults and validation, with the position
in the file. A snapshot comes from an API server, perhaps a newer one: it is only decoded, and unknown fields are
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.cel.readable_errors import refusal_sentence
from allotment.model.core import Namespace as KubeNamespace
from allotment.model.decoding import Manifest, decode_all
from allotment.model.features import modelled_release
from allotment.model.field_advice import rejected_value_advice
from allotment.model.fields import REMOVED_KINDS, REMOVED_LIFECYCLE, REMOVED_VERSION
from allotment.model.loading import Document, LoadResult
from allotment.model.loading.marks import split_path
from allotment.model.meta import Object
from allotment.model.problems import InputProblem, Position
from allotment.model.releases import release_key
from allotment.model.server_facts import API_VERSION, KIND, ServerFacts, facts_among
from allotment.model.slice_conflicts import SliceConflict, find_conflicts
from allotment.model.trees import to_value
from allotment.model.validation import FieldError
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.creation_errors import creation_errors
from allotment.time_limits import check_time
from allotment.tools.check.objects.api_versions import REFUSED_SINCE, is_served_by_default, newest_version, versions_for

#: Hints for common compile errors.
_EXPRESSION_HINTS = (
    (
        re.compile(r"'_(>=|<=|>|<)_' applied to '.*kubernetes\.Quantity"),
        "quantities have methods: a.compareTo(b) >= 0, a.isGreaterThan(b), a.isLessThan(b)",
    ),
    (
        re.compile(r"'_(>=|<=|>|<)_' applied to '.*kubernetes\.Semver"),
        "versions have methods: a.compareTo(b) >= 0, a.isGreaterThan(b), a.isLessThan(b)",
    ),
)


def validate(
    loaded: LoadResult, context: ValidationContext | None, namespace: str | None = None, given: Iterable[Object] = ()
) -> tuple[tuple[Object, ...], list[InputProblem]]:
    """Return the objects of documents and their problems; ``given`` are existing objects."""
    release = context.features.kube if context is not None else _release_of(loaded.documents)
    decoded = decode_all(loaded.documents, strict=context is not None, release=release)
    problems = [*loaded.problems, *decoded.problems]
    problems += defined_twice((manifest.document, str(manifest.key)) for manifest in decoded.manifests)
    if context is not None:
        problems += _removed(loaded.documents)
        problems += _not_served(loaded.documents, release, facts_among(given))
        namespaces = {value.metadata.name: value for value in given if isinstance(value, KubeNamespace)}
        for manifest in decoded.manifests:
            if isinstance(manifest.value, KubeNamespace):
                namespaces[manifest.key.name] = manifest.value
        for manifest in decoded.manifests:
            check_time()
            problems += _problems(manifest, creation_errors(manifest, context, namespaces))
        if not problems:  # report invalid slices before conflicts
            problems += map(_contradiction, find_conflicts(decoded.manifests))
    values = tuple(_placed(m, namespace) for m in decoded.manifests if isinstance(m.value, Object))
    if context is None:
        values += tuple(_facts(decoded.manifests))
    return values, problems


def _release_of(documents: Iterable[Document]) -> str:
    """Return the release of a snapshot's server, whose fields the objects have; empty if it is not stated."""
    for document in documents:
        if document.kind == KIND and document.api_version == API_VERSION:
            version = document.tree.get("version")
            return modelled_release(version) if isinstance(version, str) and version else ""
    return ""


def _facts(manifests: Iterable[Manifest]) -> Iterator[ServerFacts]:
    """Yield the facts about a snapshot's server, which are not a Kubernetes kind."""
    for manifest in manifests:
        if manifest.kind == KIND and manifest.api_version == API_VERSION:
            with suppress(msgspec.ValidationError):
                yield to_value(manifest.value, ServerFacts)


def _placed(manifest: Manifest, namespace: str | None) -> Object:
    """Return the object, in the namespace of ``-n`` if it is namespaced and has none."""
    value = manifest.value
    assert isinstance(value, Object)
    metadata = manifest.document.tree.get("metadata") or {}
    if namespace is None or not manifest.key.namespace or metadata.get("namespace"):
        return value
    return replace(value, metadata=replace(value.metadata, namespace=namespace))


def no_object(path: str) -> InputProblem:
    file = "<stdin>" if path == "-" else path
    return InputProblem(
        code="no-object", message="the file contains no Kubernetes objects", position=Position(file, 1, 1)
    )


def defined_twice(objects: Iterable[tuple[Document, str]]) -> Iterable[InputProblem]:
    """Yield problems for objects of the same kind with the same ``namespace/name``, which is given with each."""
    first: dict[tuple[str, str, str], Document] = {}
    for document, name in objects:
        if not document.name:  # a generated name is unique
            continue
        group = document.api_version.rpartition("/")[0]
        known = first.setdefault((group, document.kind, name), document)
        if known is not document:
            yield InputProblem(
                code="given-twice",
                message=f"{document.kind} {name} is defined twice",
                position=document.position(("metadata", "name")),
                path="metadata.name",
                hint=f"first defined at {known.position(('metadata', 'name'))}",
            )


def _removed(documents: Iterable[Document]) -> Iterable[InputProblem]:
    for document in documents:
        if document.api_version == REMOVED_VERSION and document.kind in REMOVED_KINDS:
            yield InputProblem(
                code="removed-version",
                message=f'no matches for kind "{document.kind}" in version "{document.api_version}"',
                position=document.position(("apiVersion",)),
                path="apiVersion",
                hint=f"removed in Kubernetes {REMOVED_LIFECYCLE.removed}: use {REMOVED_LIFECYCLE.replacement}",
            )


def _not_served(documents: Iterable[Document], kube: str, facts: ServerFacts | None) -> Iterable[InputProblem]:
    """The versions that the release serves only with ``--runtime-config``, unless the cluster is known to serve them.

    Before ``REFUSED_SINCE``, `allot check` warns of them; clusters often enable them.
    """
    if release_key(kube) < release_key(REFUSED_SINCE):
        return
    served = {version for versions in facts.served.values() for version in versions} if facts is not None else set()
    for document in documents:
        version = document.api_version.rpartition("/")[2]
        if version in served or version not in versions_for(document) or is_served_by_default(document, version, kube):
            continue
        newest = newest_version(document, kube)
        if not is_served_by_default(document, newest, kube):  # a kind without any version that is served by default
            continue
        group = document.api_version.rpartition("/")[0]
        enable = f"--runtime-config={document.api_version}=true"
        yield InputProblem(
            code="version-not-served",
            message=f'no matches for kind "{document.kind}" in version "{document.api_version}"',
            position=document.position(("apiVersion",)),
            path="apiVersion",
            hint=f"Kubernetes {kube} serves it only with {enable}: use {group}/{newest}",
        )


def _problems(manifest: Manifest, errors: Iterable[FieldError]) -> Iterator[InputProblem]:
    """The problems of an object; two errors with the same advice for a field are one mistake."""
    advised: set[tuple[str, str]] = set()
    for error in errors:
        sentence = _sentence(error)
        if sentence and (error.path, sentence) in advised:
            continue
        advised.add((error.path, sentence))
        yield _problem(manifest, error, sentence)


def _sentence(error: FieldError) -> str:
    """The mistake, as a sentence that precedes Kubernetes' text; empty if that is clear enough."""
    if error.path.endswith(".expression") and isinstance(error.value, str):
        return refusal_sentence(error.value, error.detail)
    advice = rejected_value_advice(split_path(error.path), error.body)
    return advice.sentence if advice is not None else ""


def _problem(manifest: Manifest, error: FieldError, sentence: str) -> InputProblem:
    code, hint = "invalid-field", ""
    text = error.body
    if error.path.endswith(".expression"):
        code = "selector-invalid"
        # The value is a whole expression, which the code frame shows already.
        text = f"{error.type.text}: {error.detail}" if error.detail else text
        hint = next((hint for pattern, hint in _EXPRESSION_HINTS if pattern.search(error.detail)), "")
    message = f"{error.path}: {sentence}. Kubernetes says: {text}" if sentence else f"{error.path}: {text}"
    return InputProblem(code=code, message=message, position=manifest.position(error.path), path=error.path, hint=hint)


def _contradiction(found: SliceConflict) -> InputProblem:
    return InputProblem(
        code="slices-contradict",
        message=found.message,
        position=found.manifest.position(found.path),
        path=found.path,
        hint=f"{found.other_label} {found.other}" if found.other else "",
    )


#: The prefix of a snapshot's first line.
SNAPSHOT_HEADING: Final = "# A snapshot of Kubernetes "


def cut_off(documents: Sequence[Document]) -> Iterator[InputProblem]:
    """Yield problems for truncated files of ``allot snapshot``, because a part of a YAML file can be valid YAML.

    The facts about the server are last, so a file without them is truncated. A part of a JSON file is invalid.
    """
    snapshots = dict.fromkeys(
        document.origin.file for document in documents if document.origin.source.startswith(SNAPSHOT_HEADING)
    )
    ended = {document.origin.file for document in documents if document.tree.get("kind") == KIND}
    for file in snapshots:
        if file not in ended:
            words = "the snapshot is truncated"
            yield InputProblem(
                code="cut-off", message=words, position=Position(file, 1, 1), hint="take or copy the snapshot again"
            )
