"""Applies edits to the text of a file: text outside the edited values keeps its bytes.

Each edit becomes a few splices of the text of its document, which is then parsed again for the next edit. Before the
new text is returned, it is verified: it must contain the edited trees and all comments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allotment.model.editing import block_style, flow_style, strings
from allotment.model.editing.edits import (
    AddDocument,
    Edit,
    EditError,
    InsertItem,
    Lift,
    Nest,
    RenameKey,
    ReplaceText,
    SetValue,
)
from allotment.model.editing.formatting import block_lines, is_inline, key_text, quoted
from allotment.model.editing.source_text import (
    SourceText,
    Splice,
    ValueLocation,
    apply_splices,
    source_text,
    with_stripped_block,
)
from allotment.model.editing.steps import EditStep, edit_steps, split_independent
from allotment.model.editing.tree_edits import apply_edits, json_equal, value_at
from allotment.model.loading import Document, load_text
from allotment.model.loading.comments import find_comments
from allotment.model.loading.documents import Origin
from allotment.model.loading.marks import DocumentError, Path, ValueMark, join_path


def rewrite(source: str, file: str, edits: Sequence[tuple[Document, Edit]]) -> str:
    """The text of a file after edits of its documents, which were loaded from ``source``.

    Raises ``EditError`` with the reason if an edit does not fit, or if the new text does not contain the expected
    result: the edited trees, the other documents unchanged, the added documents, and all comments.
    """
    if "\r" in source and "\n" not in source:
        # Classic Mac OS line breaks: replacing them by "\n" keeps all offsets.
        converted = source.replace("\r", "\n")
        documents = {document.index: document for document in load_text(converted, file).documents}
        converted_edits = [(documents[document.index], edit) for document, edit in edits]
        return rewrite(converted, file, converted_edits).replace("\n", "\r")
    by_document: dict[Document, list[Edit]] = defaultdict(list)
    added: list[Any] = []
    for document, edit in edits:
        if document.origin.source != source:
            raise EditError(f"{document.file} has changed since it was read")
        if isinstance(edit, AddDocument):
            added.append(edit.value)
        else:
            by_document[document].append(edit)
    expected = {
        document.index: apply_edits(document.tree, document_edits) for document, document_edits in by_document.items()
    }
    by_origin: dict[Origin, list[EditStep]] = defaultdict(list)
    for document, document_edits in by_document.items():
        by_origin[document.origin] += edit_steps(document, document_edits)
    # From last to first, so that the offsets of the remaining documents stay valid.
    order = {document.origin: (document.origin.offset, document.index) for document in by_document}
    new = source
    stops: dict[int, int] = {}
    for origin in sorted(by_origin, key=order.__getitem__, reverse=True):
        start = origin.offset
        end = stops.get(start, start + len(origin.text))
        text = _edit_text(new[start:end], origin, by_origin[origin])
        stops[start] = start + len(text)
        new = new[:start] + text + new[end:]
    _verify(source, new, file, expected)
    return _with_documents(new, added) if added else new


def _with_documents(text: str, trees: list[Any]) -> str:
    """The text of a file with more documents at its end. Raises ``EditError`` for JSON, which has only one."""
    before = load_text(text).documents
    if any(document.origin.json for document in before):
        raise EditError("an object cannot be added to a JSON file")
    origin = before[-1].origin
    style = source_text(origin.text, _marks(origin, origin.text), json=False).style
    lines = [line for tree in trees for line in ("---", *block_lines(tree, style))]
    new = text + ("" if text.endswith("\n") else style.newline) + style.newline.join((*lines, ""))
    expected = [*(document.tree for document in before), *trees]
    found = [document.tree for document in load_text(new).documents]
    if len(found) != len(expected) or not all(map(json_equal, found, expected)):
        raise EditError("an object cannot be added at the end of the file")
    return new


def _edit_text(text: str, origin: Origin, steps: list[EditStep]) -> str:
    """The part of a file that contains documents, after steps on these documents."""
    if origin.json or text.endswith("\n"):
        return _apply_steps(text, origin, steps)[0]
    # Lines can be appended only after a line break. A break also becomes part of a final block scalar: unless it can be
    # removed again, the block gets a chomping indicator.
    newline = "\r\n" if "\r\n" in text else "\n"
    for ended in (text + newline, with_stripped_block(text, _marks(origin, text)) + newline):
        new, trees = _apply_steps(ended, origin, steps)
        for candidate in (new.removesuffix(newline), new):
            results = [document.tree for document in load_text(candidate).documents]
            if all(any(json_equal(tree, result) for result in results) for tree in trees):
                return candidate
    raise EditError("the file does not end with a line break")


def _apply_steps(text: str, origin: Origin, steps: list[EditStep]) -> tuple[str, list[Any]]:
    """The text after the steps, and the trees of the documents."""
    trees = {step.document: step.document.tree for step in steps}
    while steps:
        source = source_text(text, _marks(origin, text), json=origin.json)
        ready, steps = split_independent(steps, trees)
        splices = _combined_splices(source, trees, ready) if len(ready) > 1 else None
        if splices is None:
            steps = [*ready[1:], *steps]
            ready = ready[:1]
            splices = [_splices(source, trees, ready[0])]
        for step in ready:
            trees[step.document] = apply_edits(trees[step.document], [step.edit])
        text = apply_splices(text, [splice for step_splices in splices for splice in step_splices])
    return text, list(trees.values())


def _marks(origin: Origin, text: str) -> ValueMark:
    """The positions of values in a text that may be edited already. Raises ``EditError`` if it cannot be parsed."""
    try:
        return origin.marks(text)
    except DocumentError as error:
        raise EditError(_unsafe_edit(origin.text, error.message)) from None


def _combined_splices(
    source: SourceText, trees: Mapping[Document, Any], steps: Sequence[EditStep]
) -> list[list[Splice]] | None:
    """The splices of several steps, or None if the splices of different steps overlap or start at the same offset."""
    try:
        splices = [_splices(source, trees, step) for step in steps]
        apply_splices(source.text, [splice for step_splices in splices for splice in step_splices])
    except EditError:
        return None
    starts = Counter(start for step_splices in splices for start in {splice.start for splice in step_splices})
    return splices if max(starts.values(), default=1) == 1 else None


# --- edits to splices ------------------------------------------------------------------------------------------------


def _splices(source: SourceText, trees: Mapping[Document, Any], step: EditStep) -> list[Splice]:
    """The splices for a step. ``trees``: the documents before the step."""
    document, edit = step
    tree = trees[document]
    path = (*document.base, *edit.path)
    if isinstance(edit, SetValue):
        return _set_value(source, path, tree, edit)
    if isinstance(edit, ReplaceText):
        location = source.find(path)
        _require_own_value(location)
        splice = strings.replace(source, location, edit.start, edit.stop, edit.text)
        if splice is not None:
            return [splice]
        old = value_at(tree, edit.path)
        return _replace_value(source, location, old[: edit.start] + edit.text + old[edit.stop :])
    if isinstance(edit, InsertItem):
        location = source.find(path)
        if location.mark.block:
            return block_style.insert_item(source, location, edit.value, edit.position)
        return flow_style.add_member(source, location, None, edit.value, edit.position)
    if isinstance(edit, Nest):
        location = source.find(path)
        if {member.name for member in source.members(location)}.isdisjoint(edit.keys):
            raise EditError(f"{join_path(path)} gets its fields from a merge key: edit the merged mapping")
        return (
            block_style.nest(source, location, edit) if location.mark.block else flow_style.nest(source, location, edit)
        )
    location = source.find(path)
    if isinstance(edit, RenameKey):
        return [_rename(source, location, edit)]
    if isinstance(edit, Lift):
        _require_own_value(location)
        assert location.parent is not None
        return block_style.lift(source, location) if location.parent.mark.block else flow_style.lift(source, location)
    return _remove(source, location)


def _require_own_value(location: ValueLocation) -> None:
    if location.mark.alias is not None:
        raise EditError(f"{join_path(location.path)} is an alias: edit the value at its anchor")


def _set_value(source: SourceText, path: Path, tree: Any, edit: SetValue) -> list[Splice]:
    *above, last = path
    parent = value_at(tree, edit.path[:-1])
    if isinstance(parent, list) or last in parent:
        return _replace_value(source, source.find(path), edit.value)
    location = source.find(tuple(above))
    names = [member.name for member in source.members(location)]
    index = 0 if edit.first else names.index(edit.after) + 1 if edit.after in names else len(names)
    if location.mark.block:
        return block_style.add_field(source, location, str(last), edit.value, index)
    return (
        flow_style.add_member(source, location, str(last), edit.value, index)
        if names
        else _replace_value(source, location, {last: edit.value})
    )


def _replace_value(source: SourceText, location: ValueLocation, value: Any) -> list[Splice]:
    start, stop = location.span
    in_quotes = (
        location.mark.entries is None and location.mark.items is None and source.text[start : start + 1] in ("'", '"')
    )
    if in_quotes and isinstance(value, str) and is_inline(value) and not source.json:
        return [Splice(start, stop, quoted(value, source.text[start]))]
    if source.json or (location.parent is not None and not location.parent.mark.block):
        return flow_style.replace_value(source, location, value)
    return block_style.replace_value(source, location, value)


def _remove(source: SourceText, location: ValueLocation) -> list[Splice]:
    parent = location.parent
    assert parent is not None
    members = source.members(parent)
    last = location.path[-1]
    index = next(number for number, member in enumerate(members) if member.name == last)
    return block_style.remove(source, parent, index) if parent.mark.block else flow_style.remove(source, parent, index)


def _rename(source: SourceText, location: ValueLocation, edit: RenameKey) -> Splice:
    entry = location.entry
    assert entry is not None
    assert location.parent is not None
    written = source.text[entry.start : entry.stop]
    if source.json:
        return Splice(entry.start, entry.stop, flow_style.flow_key(source, edit.name))
    if written[0] in "'\"":
        return Splice(entry.start, entry.stop, quoted(edit.name, written[0]))
    if written[0] in "*&!":
        raise EditError(f"the key of {join_path(location.path)} is an alias, or has an anchor or tag")
    return Splice(entry.start, entry.stop, key_text(edit.name, source.style, flow=not location.parent.mark.block))


# --- verification ----------------------------------------------------------------------------------------------------


def _verify(old: str, new: str, file: str, expected: Mapping[int, Any]) -> None:
    """Parse a rewritten file and compare it with the original.

    ``expected``: the trees of the changed documents, by index. Raises ``EditError``.
    """
    before, after = load_text(old, file), load_text(new, file)
    if [problem.code for problem in before.problems] != [problem.code for problem in after.problems]:
        detail = after.problems[0].message if after.problems else "a problem of the original text would disappear"
        raise EditError(_unsafe_edit(old, detail))
    if len(before.documents) != len(after.documents):
        raise EditError(_edit_failure(old, f"{len(before.documents)} documents would become {len(after.documents)}"))
    for original, result in zip(before.documents, after.documents, strict=True):
        if not json_equal(result.tree, expected.get(original.index, original.tree)):
            raise EditError(_edit_failure(old, f"{_description(original)} would not have the intended content"))
    expected_comments, comments = _comment_texts(before.documents), _comment_texts(after.documents)
    if expected_comments != comments:
        lost = next(iter(expected_comments - comments), None)
        raise EditError("a comment would be written twice" if lost is None else f"a comment would be lost: # {lost}")


def _comment_texts(documents: Iterable[Document]) -> Counter[str]:
    """The comments of the parts of a file that contain documents; JSON has none."""
    parts = {document.origin.offset: document.origin.text for document in documents if not document.origin.json}
    return Counter(comment.text.strip() for part in parts.values() for comment in find_comments(part).comments)


def _description(document: Document) -> str:
    return f"{document.kind} {document.name}".strip() or f"document {document.index + 1}"


def _unsafe_edit(old: str, detail: str) -> str:
    return _edit_failure(old, f"the syntax cannot be edited safely ({detail})")


def _edit_failure(old: str, detail: str) -> str:
    """The reason why a text cannot be edited; it mentions anchors if the text has any."""
    has_aliases = "&" in old and "*" in old
    return f"the file may share values through anchors ({detail})" if has_aliases else detail
