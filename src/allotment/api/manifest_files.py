"""Reads manifests with their texts, so that they can be changed, and decides which documents of folders matter.

A file that is named is always checked. Directories contain files of many programs: documents that are not
Kubernetes objects are skipped; templates of charts and patches of kustomizations are counted and reported, because only
their output is an object.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final

from msgspec.structs import replace as replace_of

from allotment.api.load import Manifests, Source, is_text, read_sources
from allotment.errors import InvalidManifests
from allotment.model.loading import Document, InputProblem, LoadResult, load_paths, load_text, manifest_files
from allotment.model.serialization import to_yaml

#: Fields that only Kubernetes objects, and parts of them, have.
_FIELDS: Final = frozenset({
    "deviceClassName", "resourceClaims", "resourceClaimName", "resourceClaimTemplateName", "matchAttribute",
    "firstAvailable", "allocationMode", "extendedResourceName", "cudaComputeCapability", "nvidiaDriverRoot",
    "gpuResourcesEnabledOverride", "devicePlugin",
})  # fmt: skip
#: Resources and labels of GPUs, and expressions on devices.
_WORDS: Final = re.compile(
    r"(?:^|\.)(?:nvidia\.com|amd\.com|intel\.com|habana\.ai)/|\bdevice\.(?:attributes|capacity|driver)\b"
)
_OBJECT: Final = re.compile(r"""^[\s\-{,]*["']?apiVersion["']?\s*:""", re.MULTILINE)
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def is_checked(document: Document) -> bool:
    """Return whether a document found in a directory is to be checked."""
    tree = document.tree
    return bool(document.api_version and document.kind) or _speaks_of_devices(tree)


def is_template(text: str) -> bool:
    """Return whether a text is a template (Helm, Jinja), which is not YAML before it is rendered."""
    return _TEMPLATE.search(text) is not None


def is_object(text: str) -> bool:
    """Return whether a text with syntax errors was intended as a Kubernetes object."""
    return _OBJECT.search(text) is not None


def _speaks_of_devices(tree: Any) -> bool:
    level = [tree]
    while level:
        node = level.pop()
        if isinstance(node, dict):
            if not _FIELDS.isdisjoint(node) or any(isinstance(key, str) and _WORDS.search(key) for key in node):
                return True
            level.extend(node.values())
        elif isinstance(node, list):
            level.extend(node)
        elif isinstance(node, str) and _WORDS.search(node):
            return True
    return False


TEMPLATE_HINT: Final = "if it is a template, check its output: helm template … | allot check -"
#: Problems that occur before the text is parsed: invalid input, not an invalid manifest.
_UNREADABLE: Final = frozenset({"unreadable", "no-files", "too-big"})


@dataclass(slots=True)
class ManifestFiles:
    """The manifests that were read, by file. ``sources``: the texts of all files to check, by name, in order.

    ``names``: the files and folders as they were given, for commands. ``templates`` and ``patches``: files that were
    skipped because they must be rendered first; ``found``: files found in directories; ``unwritable``: the names of
    texts that are no files; ``is_repeatable``: False if another command could not read them again.
    """

    names: tuple[str, ...] = ()
    documents: list[Document] = field(default_factory=list)
    problems: list[InputProblem] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    found: set[str] = field(default_factory=set)
    unwritable: set[str] = field(default_factory=set)
    is_repeatable: bool = True

    def add(self, loaded: LoadResult, source: str, file: str) -> None:
        """Add a file to check."""
        self.documents += loaded.documents
        self.problems += loaded.problems
        self.sources[file] = source

    def add_text(self, text: str, name: str, loaded: LoadResult | None = None) -> None:
        """Add a text that is no file; the second one of the same name is numbered."""
        unique, number = name, 1
        while unique in self.sources:
            number += 1
            unique = f"{name} {number}"
        if loaded is None or unique != name:
            loaded = load_text(text, unique)
        self.add(loaded, text, unique)
        self.unwritable.add(unique)
        self.is_repeatable = False

    def leave_out(self, patches: frozenset[str]) -> None:
        """Skip the files found in directories that are patches."""
        self.patches = [file for file in self.sources if file in self.found and file in patches]
        for file in self.patches:
            del self.sources[file]
        self.documents = [document for document in self.documents if document.file not in self.patches]
        self.problems = [problem for problem in self.problems if problem.position.file not in self.patches]

    def with_texts(self, texts: Mapping[str, str]) -> ManifestFiles:
        """Return the files with some texts replaced."""
        after = replace(self, documents=[], problems=[], sources={})
        for file, source in self.sources.items():
            if file in texts:
                after.add(_only_checked(load_text(texts[file], file), file in self.found), texts[file], file)
            else:
                documents = [document for document in self.documents if document.file == file]
                after.add(LoadResult(documents, [p for p in self.problems if p.position.file == file]), source, file)
        return after

    def require_syntax(self) -> None:
        """Raise InvalidManifests if a text is not valid YAML or JSON."""
        if self.problems:
            raise InvalidManifests(self.problems, self.sources.get)


def _only_checked(loaded: LoadResult, found: bool) -> LoadResult:
    """Return the documents to check of a file found in a directory."""
    return LoadResult([document for document in loaded.documents if not found or is_checked(document)], loaded.problems)


def never(file: str) -> bool:
    """Return False: no file is excluded."""
    return False


def read_manifest_files(
    sources: Sequence[Source], is_excluded: Callable[[str], bool] = never, *, force_exclude: bool = False
) -> ManifestFiles:
    """Read manifests. Raises InvalidManifests for missing or unreadable files; errors of syntax are problems.

    ``is_excluded`` applies to files found in directories, and with ``force_exclude`` also to named files.
    """
    files = ManifestFiles()
    unusable: list[InputProblem] = []
    seen: set[str | int] = set()
    kustomizations: list[Document] = []
    for source in list(_flat(sources)):  # as long as they exist, their ids differ
        if not isinstance(source, str | os.PathLike):
            if id(source) in seen:  # standard input may be named twice
                continue
            seen.add(id(source))
            _add_loaded(files, source if isinstance(source, Manifests) else read_sources(source))
            continue
        path = os.fspath(source)
        files.names += (path,)
        for file, named in _files(path, is_excluded, unusable):
            # Different paths to one file are read once; a pipe has no unique path.
            identity = os.path.realpath(file) if Path(file).is_file() else file
            if identity in seen or (named and force_exclude and is_excluded(file)):
                continue
            seen.add(identity)
            loaded = _read(files, unusable, file, named and not force_exclude)
            if is_kustomization(file):
                kustomizations += loaded.documents
    if unusable:
        raise InvalidManifests(unusable, lambda file: None)
    files.leave_out(frozenset(patches_of(kustomizations)))
    return files


def _flat(sources: Sequence[Source]) -> Iterator[Source]:
    """Yield single sources; a text and standard input become manifests."""
    for source in sources:
        if isinstance(source, str) and (source == "-" or is_text(source)):
            yield read_sources(source)
        elif isinstance(source, Manifests | str | bytes) or not isinstance(source, Sequence):
            yield source
        else:
            yield from _flat(source)


def _add_loaded(files: ManifestFiles, loaded: Manifests) -> None:
    """Add loaded manifests, by file. Objects without a text, such as dicts, get one."""
    files.names += loaded.names
    files.is_repeatable &= loaded.is_repeatable
    parts = {name: LoadResult([], []) for name in loaded.sources}
    for document in loaded.documents:
        parts.setdefault(document.file, LoadResult([], [])).documents.append(document)
    for problem in loaded.problems:
        parts.setdefault(problem.position.file, LoadResult([], [])).problems.append(problem)
    for file, part in parts.items():
        if file in loaded.sources:
            files.add_text(loaded.sources[file], file, part)
        elif part.documents and not part.documents[0].origin.source:
            for document in part.documents:
                files.add_text(to_yaml([document.tree]), file)
        else:
            files.add(part, _source(part.documents, file), file)


def _files(path: str, is_excluded: Callable[[str], bool], unusable: list[InputProblem]) -> Iterator[tuple[str, bool]]:
    """Yield the files of a path, and whether it names them directly."""
    if not Path(path).is_dir():
        yield path, True
        return
    problems: list[InputProblem] = []
    found = list(manifest_files(path, problems))
    unusable += problems
    if not found and not problems:
        unusable += load_paths([path]).problems
    prefix = f".{os.sep}"
    yield from ((file.removeprefix(prefix), False) for file in found if not is_excluded(file))


def _read(files: ManifestFiles, unusable: list[InputProblem], file: str, named: bool) -> LoadResult:
    """Read a file, add it if it is to be checked, and return its contents."""
    loaded = load_paths([file])
    stops = [problem for problem in loaded.problems if problem.code in _UNREADABLE]
    if stops:
        unusable += stops
        return loaded
    source = _source(loaded.documents, file)
    if named:
        files.add(_explained(loaded) if is_template(source) else loaded, source, file)
    elif not loaded.problems or (is_object(source) and not is_template(source)):
        checked = _only_checked(loaded, found=True)
        if checked.documents or checked.problems:
            files.add(checked, source, file)
            files.found.add(file)
    elif is_object(source):
        files.templates.append(file)
    return loaded


def _explained(loaded: LoadResult) -> LoadResult:
    """Add the hint that a file with YAML errors may be a template."""
    return LoadResult(
        loaded.documents, [replace_of(problem, hint=problem.hint or TEMPLATE_HINT) for problem in loaded.problems]
    )


def _source(documents: Iterable[Document], file: str) -> str:
    """Return the text of a file; it is read again only if it was not loaded, and never from a pipe."""
    for document in documents:
        return document.origin.source
    try:
        return Path(file).read_bytes().decode("utf-8", "replace") if Path(file).is_file() else ""
    except (OSError, ValueError):
        return ""


#: File names of kustomizations.
_KUSTOMIZATION_FILES: Final = frozenset({"kustomization.yaml", "kustomization.yml"})
#: Fields of a kustomization that list patches: each entry is a file, an inline text, or a mapping with ``path``.
_PATCH_FIELDS: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")


def is_kustomization(file: str) -> bool:
    """Return whether a file is a kustomization, by its name."""
    return PurePath(file).name in _KUSTOMIZATION_FILES


def patches_of(documents: Iterable[Document]) -> Iterator[str]:
    """Return the paths of files that kustomizations list as patches.

    Patches look like objects but contain only differences: duplicates and missing fields are intended there, and only
    the output of the kustomization can be checked.
    """
    for document in documents:
        folder = PurePath(document.file).parent.as_posix()
        for name in _PATCH_FIELDS:
            entries = document.tree.get(name)
            for entry in entries if isinstance(entries, list) else ():
                path: Any = entry.get("path") if isinstance(entry, dict) else entry
                if isinstance(path, str) and "\n" not in path:
                    yield posixpath.normpath(posixpath.join(folder, path))
