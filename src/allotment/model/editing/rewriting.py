"""Edits made in the text of a file: what is not touched keeps its bytes.

Each edit becomes a few splices of the text in which its document is read, whose places are then read again for the
next one. What comes out is proven before anybody sees it (``proving``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from allotment.model.editing import block_style, flow_style, strings
from allotment.model.editing.edits import Edit, EditError, InsertItem, Lift, Nest, RenameKey, ReplaceText, SetValue
from allotment.model.editing.formatting import is_inline, key_text, quoted
from allotment.model.editing.proving import prove, unreadable
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
from allotment.model.loading.documents import Origin
from allotment.model.loading.marks import DocumentError, Path, ValueMark, join_path


def rewrite(source: str, file: str, edits: Sequence[tuple[Document, Edit]]) -> str:
    """The text of a file after edits of its documents, which were read from ``source``.

    Raises ``EditError``, with the reason, when an edit does not fit, or when it cannot be proven that the new text
    holds what was meant: each document its edited tree, the others what they held, and all comments.
    """
    if "\r" in source and "\n" not in source:
        # Lines as old Macs end them: a line break is one character either way, so that all places stay.
        ended = source.replace("\r", "\n")
        documents = {document.index: document for document in load_text(ended, file).documents}
        return rewrite(ended, file, [(documents[one.index], edit) for one, edit in edits]).replace("\n", "\r")
    by_document: dict[Document, list[Edit]] = defaultdict(list)
    for document, edit in edits:
        if document.origin.source != source:
            raise EditError(f"{document.file} has changed since it was read")
        by_document[document].append(edit)
    expected = {document.index: apply_edits(document.tree, these) for document, these in by_document.items()}
    by_origin: dict[Origin, list[EditStep]] = defaultdict(list)
    for document, these in by_document.items():
        by_origin[document.origin] += edit_steps(document, these)
    # From the last to the first, so that the places of those still to come stay.
    order = {document.origin: (document.origin.offset, document.index) for document in by_document}
    new = source
    stops: dict[int, int] = {}
    for origin in sorted(by_origin, key=order.__getitem__, reverse=True):
        begin = origin.offset
        end = stops.get(begin, begin + len(origin.text))
        text = _edited_text(new[begin:end], origin, by_origin[origin])
        stops[begin] = begin + len(text)
        new = new[:begin] + text + new[end:]
    prove(source, new, file, expected)
    return new


def _edited_text(text: str, origin: Origin, steps: list[EditStep]) -> str:
    """The part of a file in which documents stand, after steps of them."""
    if origin.json or text.endswith("\n"):
        return _stepped(text, origin, steps)[0]
    # Lines can be added behind the last one only when it ends. Which ends the string of a block that stands there, too:
    # unless the line break can go again, the block must say that it has none.
    newline = "\r\n" if "\r\n" in text else "\n"
    for ended in (text + newline, with_stripped_block(text, _marks(origin, text)) + newline):
        new, trees = _stepped(ended, origin, steps)
        for candidate in (new.removesuffix(newline), new):
            held = [document.tree for document in load_text(candidate).documents]
            if all(any(json_equal(tree, one) for one in held) for tree in trees):
                return candidate
    raise EditError("the file does not end with a line break")


def _stepped(text: str, origin: Origin, steps: list[EditStep]) -> tuple[str, list[Any]]:
    """The text after steps, and the trees of the documents."""
    trees = {step.document: step.document.tree for step in steps}
    while steps:
        site = source_text(text, _marks(origin, text), json=origin.json)
        taken, steps = split_independent(steps, trees)
        splices = _together(site, trees, taken) if len(taken) > 1 else None
        if splices is None:
            steps = [*taken[1:], *steps]
            taken = taken[:1]
            splices = [_splices(site, trees, taken[0])]
        for step in taken:
            trees[step.document] = apply_edits(trees[step.document], [step.edit])
        text = apply_splices(text, [splice for these in splices for splice in these])
    return text, list(trees.values())


def _marks(origin: Origin, text: str) -> ValueMark:
    """The places of values in a text that may have been changed already."""
    try:
        return origin.marks(text)
    except DocumentError as fault:
        raise EditError(unreadable(origin.text, fault.message)) from None


def _together(site: SourceText, trees: Mapping[Document, Any], steps: Sequence[EditStep]) -> list[list[Splice]] | None:
    """The splices of several steps, if they can be made at once: none begins where another does, or reaches into it."""
    try:
        splices = [_splices(site, trees, step) for step in steps]
        apply_splices(site.text, [splice for these in splices for splice in these])
    except EditError:
        return None
    starts = Counter(start for these in splices for start in {splice.start for splice in these})
    return splices if max(starts.values(), default=1) == 1 else None


# --- from what is meant to what is done ------------------------------------------------------------------------------


def _splices(site: SourceText, trees: Mapping[Document, Any], step: EditStep) -> list[Splice]:
    """What a step does to the text. ``trees`` are those of the documents before it."""
    document, edit = step
    tree = trees[document]
    path = (*document.base, *edit.path)
    if isinstance(edit, SetValue):
        return _set(site, path, tree, edit)
    if isinstance(edit, ReplaceText):
        spot = site.find(path)
        _own(spot)
        splice = strings.replace(site, spot, edit.start, edit.stop, edit.text)
        if splice is not None:
            return [splice]
        old = value_at(tree, edit.path)
        return _put(site, spot, old[: edit.start] + edit.text + old[edit.stop :])
    if isinstance(edit, InsertItem):
        spot = site.find(path)
        if spot.mark.block:
            return block_style.insert_item(site, spot, edit.value, edit.index)
        return flow_style.add(site, spot, None, edit.value, edit.index)
    if isinstance(edit, Nest):
        spot = site.find(path)
        if {member.name for member in site.members(spot)}.isdisjoint(edit.keys):
            raise EditError(f"{join_path(path)} has its fields from elsewhere: they are merged into it")
        return block_style.nest(site, spot, edit) if spot.mark.block else flow_style.nest(site, spot, edit)
    spot = site.find(path)
    if isinstance(edit, RenameKey):
        return [_renamed(site, spot, edit)]
    if isinstance(edit, Lift):
        _own(spot)
        assert spot.around is not None
        return block_style.lift(site, spot) if spot.around.mark.block else flow_style.lift(site, spot)
    return _removed(site, spot)


def _own(spot: ValueLocation) -> None:
    if spot.mark.alias is not None:
        raise EditError(f"{join_path(spot.path)} is written elsewhere: it is an alias")


def _set(site: SourceText, path: Path, tree: Any, edit: SetValue) -> list[Splice]:
    *above, last = path
    around = value_at(tree, edit.path[:-1])
    if isinstance(around, list) or last in around:
        return _put(site, site.find(path), edit.value)
    spot = site.find(tuple(above))
    names = [member.name for member in site.members(spot)]
    index = 0 if edit.first else names.index(edit.after) + 1 if edit.after in names else len(names)
    if spot.mark.block:
        return block_style.add_field(site, spot, str(last), edit.value, index)
    return flow_style.add(site, spot, str(last), edit.value, index) if names else _put(site, spot, {last: edit.value})


def _put(site: SourceText, spot: ValueLocation, value: Any) -> list[Splice]:
    start, stop = spot.place
    in_quotes = spot.mark.entries is None and spot.mark.items is None and site.text[start : start + 1] in ("'", '"')
    if in_quotes and isinstance(value, str) and is_inline(value) and not site.json:
        return [Splice(start, stop, quoted(value, site.text[start]))]
    if site.json or (spot.around is not None and not spot.around.mark.block):
        return flow_style.put(site, spot, value)
    return block_style.put(site, spot, value)


def _removed(site: SourceText, spot: ValueLocation) -> list[Splice]:
    around = spot.around
    assert around is not None
    members = site.members(around)
    last = spot.path[-1]
    index = next(number for number, member in enumerate(members) if member.name == last)
    return block_style.remove(site, around, index) if around.mark.block else flow_style.remove(site, around, index)


def _renamed(site: SourceText, spot: ValueLocation, edit: RenameKey) -> Splice:
    entry = spot.entry
    assert entry is not None
    assert spot.around is not None
    written = site.text[entry.start : entry.stop]
    if site.json:
        return Splice(entry.start, entry.stop, flow_style.name_text(site, edit.name))
    if written[0] in "'\"":
        return Splice(entry.start, entry.stop, quoted(edit.name, written[0]))
    if written[0] in "*&!":
        raise EditError(f"the key of {join_path(spot.path)} is an alias, or has an anchor or tag")
    return Splice(entry.start, entry.stop, key_text(edit.name, site.hand, flow=not spot.around.mark.block))
