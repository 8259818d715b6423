"""Whatever a file holds and however it is written: edits do what they mean, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from allotment.model.editing.edits import Edit, EditError, RenameKey, ReplaceText, SetValue
from allotment.model.editing.rewriting import rewrite
from allotment.model.editing.tree_edits import apply_edits, json_equal
from allotment.model.loading import Document, load_text
from allotment.model.loading.comments import find_comments
from tests.unit.model.editing.manifests import Scribe, edit, tree

OTHERS = "# others\nkind: Other # o\nlist: [a,  'b']\n"


def written(random: Random) -> tuple[str, Document]:
    """A file of one hand, sometimes behind another document, or with line ends of Windows, or without the last."""
    text = Scribe(random).document(tree(random))
    text = random.choice(("", "", f"{OTHERS}---\n")) + text + random.choice(("", "", f"---\n{OTHERS}"))
    if random.random() < 0.2:
        text = text.replace("\n", "\r\n")
    if random.random() < 0.1:
        text = "\ufeff" + text
    loaded = load_text(text, "f.yaml")
    assert not loaded.problems
    return text, next(document for document in loaded.documents if document.kind != "Other")


def _comments(text: str) -> list[str]:
    return sorted(comment.text for comment in find_comments(text).comments)


@given(st.integers(), st.integers(1, 4))
def test_edits_are_done_and_comments_stay(seed: int, number: int) -> None:
    random = Random(seed)
    text, document = written(random)
    edits: list[Edit] = [edit(random, document.tree) for _ in range(number)]
    try:
        wanted = apply_edits(document.tree, edits)
    except EditError:
        assume(False)
    new = rewrite(text, "f.yaml", [(document, one) for one in edits])
    after = load_text(new, "f.yaml")
    assert not after.problems
    assert json_equal(after.documents[document.index].tree, wanted)
    others = OTHERS.replace("\n", "\r\n") if "\r\n" in text else OTHERS
    assert new.count(others) == text.count(others)
    if not document.origin.json:
        assert _comments(new) == _comments(text)


@given(st.integers())
def test_nothing_changes_but_the_value(seed: int) -> None:
    random = Random(seed)
    text, document = written(random)
    one = edit(random, document.tree)
    assume(isinstance(one, SetValue | RenameKey | ReplaceText))
    try:
        start, end = document.extent(one.path, at="key" if isinstance(one, RenameKey) else "value")
    except EditError:
        assume(False)
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    new = rewrite(text, "f.yaml", [(document, one)]).removeprefix("\ufeff")
    # Comments of a value that becomes another kind of thing go above its key, on its line.
    assert new.startswith("".join(lines[: start.line - 1]))
    if isinstance(one, RenameKey | ReplaceText):
        assert new.endswith("".join(lines[end.line :]))


@pytest.mark.parametrize("turn", range(4))
def test_real_manifests(shared: Callable[[str], Path], turn: int) -> None:
    folder = shared("manifests/README.md").parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
    assert len(files) > 100
    done = 0
    for file in files[turn::4]:
        text = file.read_text("utf-8")
        for document in load_text(text, file.name).documents:
            random = Random(f"{file.name}{document.index}")
            for _ in range(2):
                one = edit(random, document.tree)
                new = rewrite(text, file.name, [(document, one)])
                assert json_equal(load_text(new).documents[document.index].tree, apply_edits(document.tree, [one]))
                done += 1
    assert done > 100
