"""Mends what rules can mend: check, take the fixes that do not touch each other, rewrite, and check again.

Fixes that the author can only have meant go first; where something is to be guessed, it is guessed of what they leave.
Texts go in and come out; whoever calls reads and writes the files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from allotment.model.editing.edits import Edit, EditError, Nest, ReplaceText
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import Document, load_text
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.rule import Rule
from allotment.tools.check.rules import RULES
from allotment.tools.check.run import check

# One mistake can hide another and that a third; what takes longer goes round in circles.
_MOST_PASSES: Final = 25

_Edits: TypeAlias = tuple[tuple[Document, Edit], ...]


class Fixed(NamedTuple):
    """``texts`` are the new texts of the files that changed, by name.

    ``applied`` are the findings that were mended, in order; the places of later ones are those in a text that was
    mended before. ``remaining`` is what is still found in the end, ``unfixable`` what has a fix that could not be
    made, and why.
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
    judge: Callable[[Bundle], Sequence[Finding]] | None = None,
) -> Fixed:
    """Mend the documents of a bundle until nothing is left that can be mended.

    With ``unsafe`` guesses are made, too. ``judge`` finds what is to be mended, by default all that ``rules`` find.
    """
    table = tuple(rules)
    found = judge or (lambda one: check(one, table))
    originals = {document.file: document.origin.source for document in bundle.documents}
    texts: dict[str, str] = {}
    seen: set[tuple[tuple[str, str], ...]] = {()}
    applied: list[Finding] = []
    failed: dict[tuple[str, ...], tuple[Finding, str]] = {}
    findings = tuple(found(bundle))
    for _ in range(_MOST_PASSES):
        fixable = [f for f in findings if f.fix is not None and (unsafe or f.fix.safe) and _name(f) not in failed]
        chosen = _chosen([f for f in fixable if f.fix is not None and f.fix.safe] or fixable)
        done, new, reasons = _rewritten(chosen)
        failed.update((_name(finding), (finding, reason)) for finding, reason in reasons)
        if not done and not reasons:
            break
        applied += done
        texts = {file: text for file, text in (texts | new).items() if text != originals[file]}
        bundle = _reloaded(bundle, new)
        before, findings = Counter(map(_name, findings)), tuple(found(bundle))
        after = Counter(map(_name, findings))
        useless = [f for f in done if after[_name(f)] >= before[_name(f)] and not _has_gone_on(f, findings)]
        failed.update((_name(finding), (finding, "its fix does not mend it")) for finding in useless)
        state = tuple(sorted(texts.items()))
        if new and state in seen:  # two fixes undo each other
            break
        seen.add(state)
    remaining = {_name(finding) for finding in findings}
    unfixable = tuple(one for name, one in failed.items() if name in remaining)
    return Fixed(texts, tuple(applied), findings, unfixable)


def _name(finding: Finding) -> tuple[str, ...]:
    """What makes a finding the same one in a text that has changed elsewhere."""
    documents = (str(document.index) for document, _ in _edits(finding))  # two objects of a file may have one name
    return (finding.code, finding.where.file, finding.subject, finding.path, finding.message, *documents)


def _has_gone_on(done: Finding, findings: Iterable[Finding]) -> bool:
    """Whether the same is found further on in the same text: a compiler tells of one mistake at a time."""
    before = {(edit.path, edit.start) for _, edit in _edits(done) if isinstance(edit, ReplaceText)}
    return any(
        path == edit.path and start < edit.start
        for finding in findings
        if _name(finding) == _name(done)
        for _, edit in _edits(finding)
        if isinstance(edit, ReplaceText)
        for path, start in before
    )


# --- which -----------------------------------------------------------------------------------------------------------


def _chosen(findings: Iterable[Finding]) -> list[Finding]:
    """Those whose edits do not touch each other, the first ones first."""
    chosen: list[Finding] = []
    taken: dict[Document, list[Edit]] = defaultdict(list)
    for finding in findings:
        edits = _edits(finding)
        same = all(edit in taken[document] for document, edit in edits)
        if same or not any(_conflict(edit, other) for document, edit in edits for other in taken[document]):
            chosen.append(finding)
            for document, edit in edits:
                if not same:
                    taken[document].append(edit)
    return chosen


def _edits(finding: Finding) -> _Edits:
    return finding.fix.edits if finding.fix is not None else ()


def _conflict(one: Edit, other: Edit) -> bool:
    if isinstance(one, ReplaceText) and isinstance(other, ReplaceText) and one.path == other.path:
        return one.start <= other.stop and other.start <= one.stop
    return any(
        longer[: len(shorter)] == shorter
        for path in _touched(one)
        for another in _touched(other)
        for shorter, longer in [sorted((path, another), key=len)]
    )


def _touched(edit: Edit) -> Iterator[Path]:
    """What an edit changes; others may change what stands beside it."""
    if isinstance(edit, Nest):
        yield from ((*edit.path, key) for key in (*edit.keys, edit.under))
    else:
        yield edit.path


# --- how -------------------------------------------------------------------------------------------------------------


def _rewritten(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, str], list[tuple[Finding, str]]]:
    """What was mended, the new texts, and what could not be mended, with the reason."""
    done: list[Finding] = []
    new: dict[str, str] = {}
    reasons: list[tuple[Finding, str]] = []
    for together in _by_files(findings):
        try:
            new |= _texts(together)
            done += together
        except EditError:
            one_by_one, texts, why = _one_by_one(together)
            done += one_by_one
            new |= texts
            reasons += why
    return done, new, reasons


def _by_files(findings: Sequence[Finding]) -> Iterable[list[Finding]]:
    """The findings in groups, none of which has edits in a file of another."""
    of_file: dict[str, list[Finding]] = {}
    for finding in findings:
        group = [finding]
        files = {document.file for document, _ in _edits(finding)}
        for other in {id(of_file[file]): of_file[file] for file in files if file in of_file}.values():
            group = [*other, *group]
        files.update(document.file for one in group for document, _ in _edits(one))
        of_file.update((file, group) for file in files)
    return {id(group): group for group in of_file.values()}.values()


def _one_by_one(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, str], list[tuple[Finding, str]]]:
    """One that cannot be done must not keep the others from being done."""
    done: list[Finding] = []
    texts: dict[str, str] = {}
    reasons: list[tuple[Finding, str]] = []
    for finding in findings:
        try:
            _texts([finding])
            texts = _texts([*done, finding])
            done.append(finding)
        except EditError as error:
            reasons.append((finding, str(error)))
    return done, texts, reasons


def _texts(findings: Iterable[Finding]) -> dict[str, str]:
    """The files after the fixes of findings."""
    by_file: dict[str, list[tuple[Document, Edit]]] = defaultdict(list)
    for finding in findings:
        for document, edit in _edits(finding):
            if (document, edit) not in by_file[document.file]:
                by_file[document.file].append((document, edit))
    sources = {file: edits[0][0].origin.source for file, edits in by_file.items()}
    texts = {file: rewrite(sources[file], file, edits) for file, edits in by_file.items()}
    return {file: text for file, text in texts.items() if text != sources[file]}


def _reloaded(bundle: Bundle, texts: dict[str, str]) -> Bundle:
    """The bundle with the documents of changed files read again, those that were in it and no others."""
    loaded = {file: load_text(text, file) for file, text in texts.items()}
    documents = [
        loaded[document.file].documents[document.index] if document.file in loaded else document
        for document in bundle.documents
    ]
    problems = [problem for problem in bundle.problems if problem.position.file not in loaded]
    problems += [problem for one in loaded.values() for problem in one.problems]
    return Bundle(documents, bundle.settings, bundle.world, problems, bundle.namespace)
