"""Applies the fixes of findings in passes: check, choose fixes that do not conflict, rewrite the files, and check
again.

Safe fixes are applied first, so that unsafe ones only guess about what remains. Input and output are texts; callers
read and write the files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from allotment.model.editing.conflicts import conflict
from allotment.model.editing.edits import Edit, EditError, ReplaceText
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import Document, load_text
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.replacements import corresponding_range
from allotment.tools.check.rule import Rule
from allotment.tools.check.rules import RULES
from allotment.tools.check.run import check

# A mistake can hide another one, and that a third; more passes than this indicate a cycle.
_MAX_PASSES: Final = 25

_Edits: TypeAlias = tuple[tuple[Document, Edit], ...]


class FixResult(NamedTuple):
    """``texts`` are the new texts of the changed files, by name.

    ``applied`` are the fixed findings in order, with their places in the original texts. ``remaining`` are the findings
    after the last pass, ``unfixable`` those whose fix could not be applied, with the reason.
    """

    texts: dict[str, str]
    applied: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    unfixable: tuple[tuple[Finding, str], ...]


def fix(
    bundle: Bundle,
    *,
    unsafe: bool,
    rules: Iterable[Rule] = RULES,
    find: Callable[[Bundle], Sequence[Finding]] | None = None,
) -> FixResult:
    """Fix the documents of a bundle until no applicable fix is left.

    ``unsafe`` also applies unsafe fixes. ``find`` returns the findings to fix, by default all findings of ``rules``.
    """
    table = tuple(rules)
    check_bundle = find or (lambda checked: check(checked, table))
    originals = {document.file: document.origin.source for document in bundle.documents}
    texts: dict[str, str] = {}
    seen: set[tuple[tuple[str, str], ...]] = {()}
    applied: list[Finding] = []
    failed: dict[tuple[str, ...], tuple[Finding, str]] = {}
    findings = tuple(check_bundle(bundle))
    for _ in range(_MAX_PASSES):
        fixable = [f for f in findings if f.fix is not None and (unsafe or f.fix.safe) and _identity(f) not in failed]
        chosen = _select_compatible(_first(fixable))
        fixed, new_texts, failures = _apply(chosen)
        failed.update((_identity(finding), (finding, reason)) for finding, reason in failures)
        if not fixed and not failures:
            break
        applied += (_at_origin(finding, originals, texts) for finding in fixed)
        texts = {file: text for file, text in (texts | new_texts).items() if text != originals[file]}
        bundle = _reload(bundle, new_texts)
        before, findings = Counter(map(_identity, findings)), tuple(check_bundle(bundle))
        after = Counter(map(_identity, findings))
        useless = [f for f in fixed if after[_identity(f)] >= before[_identity(f)] and not _recurs_later(f, findings)]
        failed.update((_identity(finding), (finding, "the fix does not remove the finding")) for finding in useless)
        state = tuple(sorted(texts.items()))
        if new_texts and state in seen:  # two fixes undo each other
            break
        seen.add(state)
    remaining = {_identity(finding) for finding in findings}
    unfixable = tuple(failure for identity, failure in failed.items() if identity in remaining)
    return FixResult(texts, tuple(applied), findings, unfixable)


def _at_origin(finding: Finding, originals: Mapping[str, str], texts: Mapping[str, str]) -> Finding:
    """The finding with its place in the original text. ``texts``: those in which it was found, if they had changed."""
    original = originals.get(finding.where.file, "")
    text = texts.get(finding.where.file, original)
    return replace(finding, where=corresponding_range(finding.where, text, original))


def _identity(finding: Finding) -> tuple[str, ...]:
    """The key by which a finding is recognized after other parts of the text have changed."""
    documents = (str(document.index) for document, _ in _edits_of(finding))  # objects of a file may have the same name
    return (finding.code, finding.where.file, finding.subject, finding.path, finding.message, *documents)


def _recurs_later(applied: Finding, findings: Iterable[Finding]) -> bool:
    """Whether the same finding occurs later in the same text: a compiler reports one mistake at a time."""
    before = {(edit.path, edit.start) for _, edit in _edits_of(applied) if isinstance(edit, ReplaceText)}
    return any(
        path == edit.path and start < edit.start
        for finding in findings
        if _identity(finding) == _identity(applied)
        for _, edit in _edits_of(finding)
        if isinstance(edit, ReplaceText)
        for path, start in before
    )


# --- selection -------------------------------------------------------------------------------------------------------


def _first(fixable: list[Finding]) -> list[Finding]:
    """The findings to fix before the others: fixes that can mean nothing else, then errors. An object with errors is
    not simulated, so that a warning about it has only a guess as its fix until they are gone."""
    safe = [finding for finding in fixable if finding.fix is not None and finding.fix.safe]
    return safe or [finding for finding in fixable if finding.level == "error"] or fixable


def _select_compatible(findings: Iterable[Finding]) -> list[Finding]:
    """The findings whose edits do not conflict; earlier findings take precedence."""
    chosen: list[Finding] = []
    taken: dict[Document, list[Edit]] = defaultdict(list)
    for finding in findings:
        edits = _edits_of(finding)
        same = all(edit in taken[document] for document, edit in edits)
        if same or not any(conflict(edit, other) for document, edit in edits for other in taken[document]):
            chosen.append(finding)
            for document, edit in edits:
                if not same:
                    taken[document].append(edit)
    return chosen


def _edits_of(finding: Finding) -> _Edits:
    return finding.fix.edits if finding.fix is not None else ()


# --- application -----------------------------------------------------------------------------------------------------


def _apply(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, str], list[tuple[Finding, str]]]:
    """The fixed findings, the new texts, and the findings that could not be fixed, with the reasons."""
    applied: list[Finding] = []
    new_texts: dict[str, str] = {}
    failures: list[tuple[Finding, str]] = []
    for group in _group_by_files(findings):
        try:
            new_texts |= _rewrite_files(group)
            applied += group
        except EditError:
            separate, texts, errors = _apply_separately(group)
            applied += separate
            new_texts |= texts
            failures += errors
    return applied, new_texts, failures


def _group_by_files(findings: Sequence[Finding]) -> Iterable[list[Finding]]:
    """Groups of findings, such that no two groups edit the same file."""
    of_file: dict[str, list[Finding]] = {}
    for finding in findings:
        group = [finding]
        files = {document.file for document, _ in _edits_of(finding)}
        for connected in {id(of_file[file]): of_file[file] for file in files if file in of_file}.values():
            group = [*connected, *group]
        files.update(document.file for member in group for document, _ in _edits_of(member))
        of_file.update((file, group) for file in files)
    return {id(group): group for group in of_file.values()}.values()


def _apply_separately(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, str], list[tuple[Finding, str]]]:
    """Apply the findings one by one, so that one failure does not prevent the other fixes."""
    applied: list[Finding] = []
    texts: dict[str, str] = {}
    failures: list[tuple[Finding, str]] = []
    for finding in findings:
        try:
            _rewrite_files([finding])
            texts = _rewrite_files([*applied, finding])
            applied.append(finding)
        except EditError as error:
            failures.append((finding, str(error)))
    return applied, texts, failures


def _rewrite_files(findings: Iterable[Finding]) -> dict[str, str]:
    """The changed files after the fixes of the findings."""
    by_file: dict[str, list[tuple[Document, Edit]]] = defaultdict(list)
    for finding in findings:
        for document, edit in _edits_of(finding):
            if (document, edit) not in by_file[document.file]:
                by_file[document.file].append((document, edit))
    sources = {file: edits[0][0].origin.source for file, edits in by_file.items()}
    texts = {file: rewrite(sources[file], file, edits) for file, edits in by_file.items()}
    return {file: text for file, text in texts.items() if text != sources[file]}


def _reload(bundle: Bundle, texts: dict[str, str]) -> Bundle:
    """The bundle with the documents of changed files loaded again, and those that were added to the files."""
    loaded = {file: load_text(text, file) for file, text in texts.items()}
    documents = [
        loaded[document.file].documents[document.index] if document.file in loaded else document
        for document in bundle.documents
    ]
    for file, result in loaded.items():
        before = max(document.index for document in bundle.documents if document.file == file)
        documents += result.documents[before + 1 :]
    problems = [problem for problem in bundle.problems if problem.position.file not in loaded]
    problems += [problem for result in loaded.values() for problem in result.problems]
    return Bundle(documents, bundle.settings, bundle.cluster, problems, bundle.namespace, bundle.admitted)
