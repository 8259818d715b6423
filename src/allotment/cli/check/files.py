"""The files of the command line: what they hold, their texts, and what of folders is passed over.

A file that is named is judged whatever it holds. In folders lie files of many programs: of those, what is no
Kubernetes object is passed over; a chart's templates and the patches of a kustomization are counted, for what they
make is an object, and they are not.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace as replace_of

from allotment.cli.check.patches import is_kustomization, patches_of
from allotment.cli.output.errors import BadInput
from allotment.model.loading import Document, InputProblem, LoadResult, load_paths, load_text, manifest_files
from allotment.phrases import counted

#: Fields that nothing but Kubernetes' objects, and pieces of them, have.
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


def is_ours(document: Document) -> bool:
    """Whether a document that was found in a folder is to be looked at."""
    tree = document.tree
    return bool(document.api_version and document.kind) or _speaks_of_devices(tree)


def is_template(text: str) -> bool:
    """Whether a text is that of a template (Helm's, Jinja's), which is no YAML before it is rendered."""
    return _TEMPLATE.search(text) is not None


def is_object(text: str) -> bool:
    """Whether a text that cannot be read was to be a Kubernetes object."""
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


STDIN: Final = "<stdin>"
TEMPLATE_HINT: Final = "if it is a template, check its output: helm template … | allot check -"
#: What stops before the text is looked at: bad input, not a bad manifest.
_UNREADABLE: Final = frozenset({"unreadable", "no-files", "too-big"})


@dataclass(slots=True)
class Files:
    """What was read. ``sources`` are the texts of all files that were judged, by their names, in order.

    ``templates`` and ``patches`` are files that were passed over because they must be rendered first; ``stdin`` is the
    name of what came by standard input; ``found`` are files of folders, which nobody named.
    """

    documents: list[Document] = field(default_factory=list)
    problems: list[InputProblem] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    patches: list[str] = field(default_factory=list)
    stdin: str = ""
    found: set[str] = field(default_factory=set)

    def add(self, loaded: LoadResult, source: str, file: str) -> None:
        """A file that is to be judged."""
        self.documents += loaded.documents
        self.problems += loaded.problems
        self.sources[file] = source

    def leave_out(self, patches: frozenset[str]) -> None:
        """Files that were found and are patches are none to judge."""
        self.patches = [file for file in self.sources if file in self.found and file in patches]
        for file in self.patches:
            del self.sources[file]
        self.documents = [document for document in self.documents if document.file not in self.patches]
        self.problems = [problem for problem in self.problems if problem.position.file not in self.patches]

    def with_texts(self, texts: Mapping[str, str]) -> Files:
        """The same files with other texts for some."""
        after = replace(self, documents=[], problems=[], sources={})
        for file, source in self.sources.items():
            if file in texts:
                after.add(_judged(load_text(texts[file], file), file in self.found), texts[file], file)
            else:
                documents = [document for document in self.documents if document.file == file]
                after.add(LoadResult(documents, [p for p in self.problems if p.position.file == file]), source, file)
        return after


def passed_over(templates: Sequence[str], patches: Sequence[str], command: str) -> Iterator[str]:
    """What was passed over, and how ``check`` or ``migrate`` gets to see what is made of it."""
    if templates:
        files = counted(len(templates), "template")
        made = f"{command} their output: helm template … | allot {command} -"
        yield f"Left out {files}, as {templates[0]}: {made}"
    if patches:
        files = f"{len(patches)} patch{'es' if len(patches) > 1 else ''}"
        yield f"Left out {files}, as {patches[0]}: {command} the whole: kubectl kustomize … | allot {command} -"


def _judged(loaded: LoadResult, found: bool) -> LoadResult:
    """Of a file that was found in a folder, what is for us."""
    return LoadResult([document for document in loaded.documents if not found or is_ours(document)], loaded.problems)


def read_files(
    paths: Sequence[str], is_excluded: Callable[[str], bool], force_exclude: bool = False, stdin_name: str = ""
) -> Files:
    """Read files, folders and, for ``-``, standard input. Raises BadInput for what is not there or cannot be read.

    ``is_excluded`` holds for what is found in folders, and with ``force_exclude`` for what is named, too.
    """
    files = Files()
    unusable: list[InputProblem] = []
    seen: set[str] = set()
    kustomizations: list[Document] = []
    for path in paths:
        if path == "-":
            if STDIN not in seen:
                seen.add(STDIN)
                _read_stdin(files, stdin_name or STDIN)
            continue
        for file, named in _files(path, is_excluded, unusable):
            # Two ways to one file are one file; a pipe has no name of its own.
            identity = os.path.realpath(file) if Path(file).is_file() else file
            if identity in seen or (named and force_exclude and is_excluded(file)):
                continue
            seen.add(identity)
            loaded = _read(files, unusable, file, named and not force_exclude)
            if is_kustomization(file):
                kustomizations += loaded.documents
    if unusable:
        raise BadInput(unusable, lambda file: None)
    files.leave_out(frozenset(patches_of(kustomizations)))
    return files


def _files(path: str, is_excluded: Callable[[str], bool], unusable: list[InputProblem]) -> Iterator[tuple[str, bool]]:
    """The files that a path means, and whether it names them."""
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


def _read_stdin(files: Files, name: str) -> None:
    data = sys.stdin.buffer.read()
    files.stdin = name
    files.add(load_text(data, name), data.decode("utf-8", "replace"), name)


def _read(files: Files, unusable: list[InputProblem], file: str, named: bool) -> LoadResult:
    """Read a file, add it where it is to be judged, and give what is in it."""
    loaded = load_paths([file])
    stops = [problem for problem in loaded.problems if problem.code in _UNREADABLE]
    if stops:
        unusable += stops
        return loaded
    source = _source(loaded.documents, file)
    if named:
        files.add(_explained(loaded) if is_template(source) else loaded, source, file)
    elif not loaded.problems or (is_object(source) and not is_template(source)):
        judged = _judged(loaded, found=True)
        if judged.documents or judged.problems:
            files.add(judged, source, file)
            files.found.add(file)
    elif is_object(source):
        files.templates.append(file)
    return loaded


def _explained(loaded: LoadResult) -> LoadResult:
    """What is wrong with the YAML of a template is mostly that it is one."""
    return LoadResult(loaded.documents, [replace_of(one, hint=one.hint or TEMPLATE_HINT) for one in loaded.problems])


def _source(documents: Iterable[Document], file: str) -> str:
    """The text of a file. It is read once more only where nothing came of it, and no pipe is."""
    for document in documents:
        return document.origin.source
    try:
        return Path(file).read_bytes().decode("utf-8", "replace") if Path(file).is_file() else ""
    except (OSError, ValueError):
        return ""
