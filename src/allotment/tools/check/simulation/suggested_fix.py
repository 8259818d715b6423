"""Fixes made of the changes that the simulation tested: the edits of a remedy, applied to the text of the files."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from allotment.engine.diagnosis.published_names import similarity
from allotment.engine.diagnosis.value_distance import named_memory, names_same
from allotment.engine.refusal import SuggestedChange
from allotment.engine.remedies import REMEDIES, LossClass, distance
from allotment.explanation.fixes import change_tree, path_steps
from allotment.explanation.text import in_words
from allotment.model.editing.edits import Edit, Remove, RenameKey, ReplaceText, SetValue
from allotment.model.editing.steps import differences
from allotment.model.editing.tree_edits import apply_edits
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.quantity import Quantity
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import TYPO_SIMILARITY
from allotment.tools.check.objects.field_shapes import shape_for
from allotment.tools.check.rule import Fix
from allotment.tools.check.selectors.edits import with_quotes_of
from allotment.tools.views import at, key_of

#: A comment, a string, a word or an operator of CEL.
_TOKEN: Final = re.compile(r"""(?P<comment>//[^\n]*)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\w+|&&|\|\||[<>=!]=|\S""")
_NAME: Final = re.compile(r"[\w./ -]+")
#: The pod template of a CronJob's Job.
_JOB_TEMPLATE = "spec.jobTemplate."
_RESOURCES: Final = "resources"


def suggested_fix(bundle: Bundle, changes: Sequence[SuggestedChange]) -> Fix | None:
    """The fix that makes all of the changes; None if there are none, or if one changes an object outside the files.

    Changes of the cluster's state that are needed, too, such as the end of another pod, are only in its text. It is
    safe if nothing else can be meant: it loses nothing, and each edit corrects the spelling of a name, the unit of an
    amount or the syntax of an expression.
    """
    if any(change.remedy == "unselect-hardware" for change in changes):
        return None  # a person has to decide what the claim requires instead
    trees: dict[Document, Any] = {}
    containers: dict[tuple[Document, Path], None] = {}
    for change in changes:
        found = _changed_document(bundle, change)
        if found is None and REMEDIES[change.remedy].loss in (LossClass.CLUSTER, LossClass.WAIT):
            continue
        if found is None:
            return None
        document, path = found
        tree, steps = trees.setdefault(document, copy.deepcopy(document.tree)), _written_steps(bundle, document, path)
        try:
            change_tree(tree, steps, change.becomes)
        except (LookupError, TypeError):  # another shape than that of the decoded object
            return None
        if steps[-1] == _RESOURCES and isinstance(change.becomes, dict):
            containers.update({(document, (*steps, field)): None for field in change.becomes})
    edits = tuple(
        (document, edit)
        for document, tree in trees.items()
        for edit in _edits(document, tree, [path for changed, path in containers if changed is document])
    )
    remedies = [change.remedy for change in changes]
    is_spelling = distance(remedies).loss == LossClass.SPELLING and "likely" not in remedies
    safe = is_spelling and all(_is_correction(document, edit) for document, edit in edits)
    return Fix(in_words(changes), edits, safe) if edits else None


def _is_correction(document: Document, edit: Edit) -> bool:
    """Whether an edit writes what the author meant, and not only something similar.

    Names with other numbers are other names, and a field that is added or removed can be meant differently.
    """
    old = at(document.tree, edit.path)
    match edit:
        case SetValue(_, str() as new) if isinstance(old, str):
            return _is_typo(old, new)
        case ReplaceText(_, start, stop, new) if isinstance(old, str):
            before, after = old[start:stop].strip("\"' "), new.strip("\"' ")
            are_names = _NAME.fullmatch(before) and _NAME.fullmatch(after)
            return not are_names or before == after or _is_same_product(before, after) or _is_typo(before, after)
    return False


def _is_same_product(old: str, new: str) -> bool:
    """Whether a name is a longer one of the same product: "NVIDIA A100" is neither the card of 40 GB nor that of 80."""
    return names_same(old, new) and bool(named_memory(old) or not named_memory(new))


def _is_typo(old: str, new: str) -> bool:
    same_numbers = re.findall("[0-9]+", old) == re.findall("[0-9]+", new)
    return same_numbers and similarity(old, new) >= TYPO_SIMILARITY


def _changed_document(bundle: Bundle, change: SuggestedChange) -> tuple[Document, str] | None:
    """The document of the changed object, and the path of the field in its v1 shape."""
    if not change.object or not change.path or change.remedy == "wait":
        return None
    documents = bundle.cached(_documents_by_name)
    document = documents.get(change.object)
    if document is None and change.object.startswith("Job "):  # a CronJob's Job has a name suffix
        cron_job = f"CronJob {change.object.removeprefix('Job ').rpartition('-')[0]}"
        return (documents[cron_job], f"{_JOB_TEMPLATE}{change.path}") if cron_job in documents else None
    return (document, change.path) if document is not None else None


def _documents_by_name(bundle: Bundle) -> dict[str, Document]:
    """The documents that decode, by kind and name as in `SuggestedChange.object`."""
    return {
        f"{document.kind} {key_of(document, bundle.namespace) if manifest.key.namespace else document.name}": document
        for document, manifest in bundle.manifests.items()
    }


def _written_steps(bundle: Bundle, document: Document, path: str) -> Path:
    """The path of a field of the v1 shape in the version of a document: without ``exactly`` if the version has none."""
    shape = shape_for(document, bundle.features.kube)
    written: list[str | int] = []
    for step in path_steps(path):
        if shape is not None and shape.form == "struct":
            field = shape.fields.get(str(step))
            if field is None and step == "exactly":
                continue
            shape = field.shape if field is not None else None
        elif shape is not None:
            shape = shape.element
        written.append(step)
    return tuple(written)


def _edits(document: Document, tree: Any, amounts: Iterable[Path]) -> Iterator[Edit]:
    """The edits that turn a document into a changed tree; of an expression, only the changed words, and of ``amounts``,
    the limits or requests of a container, only those that change."""
    for path in amounts:
        written = at(document.tree, path)
        yield from _amount_edits(path, written, at(tree, path))
        tree = apply_edits(tree, [SetValue(path, written)])
    for edit in differences((), document.tree, tree):
        match edit:
            case SetValue((*_, "expression"), str() as new) if isinstance(old := at(document.tree, edit.path), str):
                yield from _expression_edits(edit.path, old, new)
            case SetValue(path, []) if path:  # the last item of a list was removed
                yield Remove(path)
            case _:
                yield edit


def _amount_edits(path: Path, written: Mapping[str, Any], changed: Mapping[str, Any]) -> Iterator[Edit]:
    """The edits of limits or requests: equal amounts stay as written, also under another name."""
    amounts = {
        name: written[name] if name in written and _is_equal(written[name], amount) else amount
        for name, amount in changed.items()
    }
    old, new = [name for name in written if name not in amounts], [name for name in amounts if name not in written]
    if len(old) == len(new) == 1 and _is_equal(written[old[0]], amounts[new[0]]):
        yield RenameKey((*path, old[0]), new[0])
        amounts = {name: amounts.get(name, amount) for name, amount in written.items()}
    yield from differences(path, written, amounts)


def _is_equal(amount: object, other: object) -> bool:
    return Quantity.parse(str(amount)) == Quantity.parse(str(other))


def _expression_edits(path: Path, old: str, new: str) -> Iterator[ReplaceText]:
    """The edits that turn one expression into another; line breaks and the author's quotes stay."""
    new = with_quotes_of(old, new)
    before, after = _tokens(old), _tokens(new)
    matcher = SequenceMatcher(None, [m[0] for m in before], [m[0] for m in after], autojunk=False)
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        if kind == "equal":
            continue
        first, last = _with_space(before, start, stop)
        new_first, new_last = _with_space(after, new_start, new_stop)
        text = new[new_first:new_last]
        if kind == "replace":  # the space around the words stays, unless the new words need none or more
            if old[first].isspace() == text[0].isspace():
                first, text = before[start].start(), text.lstrip()
            if old[last - 1].isspace() == text[-1].isspace():
                last, text = before[stop - 1].end(), text.rstrip()
        yield ReplaceText(path, first, last, text)


def _tokens(expression: str) -> list[re.Match[str]]:
    """The tokens without comments, which are like space: the author's ones stay."""
    return [token for token in _TOKEN.finditer(expression) if not token["comment"]]


def _with_space(tokens: Sequence[re.Match[str]], start: int, stop: int) -> tuple[int, int]:
    """The extent of tokens with the space around them, up to the neighbours."""
    first = tokens[start - 1].end() if start else tokens[0].start()
    return first, tokens[stop].start() if stop < len(tokens) else tokens[-1].end()
