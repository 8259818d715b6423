"""Property tests of edits: for any content and style, a file changes as the edits state and not otherwise."""

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
from tests.unit.model.editing.manifests import ManifestWriter, edit, tree

OTHERS = "# others\nkind: Other # o\nlist: [a,  'b']\n"


def random_file(random: Random) -> tuple[str, Document]:
    """A random file, sometimes with other documents, Windows line breaks or a byte order mark, and its document."""
    text = ManifestWriter(random).document(tree(random))
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
def test_edits_are_applied_and_comments_stay(seed: int, number: int) -> None:
    random = Random(seed)
    text, document = random_file(random)
    edits: list[Edit] = [edit(random, document.tree) for _ in range(number)]
    try:
        expected = apply_edits(document.tree, edits)
    except EditError:
        assume(False)
    new = rewrite(text, "f.yaml", [(document, random_edit) for random_edit in edits])
    after = load_text(new, "f.yaml")
    assert not after.problems
    assert json_equal(after.documents[document.index].tree, expected)
    others = OTHERS.replace("\n", "\r\n") if "\r\n" in text else OTHERS
    assert new.count(others) == text.count(others)
    if not document.origin.json:
        assert _comments(new) == _comments(text)


@given(st.integers())
def test_only_the_edited_value_changes(seed: int) -> None:
    random = Random(seed)
    text, document = random_file(random)
    random_edit = edit(random, document.tree)
    assume(isinstance(random_edit, SetValue | RenameKey | ReplaceText))
    try:
        start, end = document.extent(random_edit.path, at="key" if isinstance(random_edit, RenameKey) else "value")
    except EditError:
        assume(False)
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    new = rewrite(text, "f.yaml", [(document, random_edit)]).removeprefix("\ufeff")
    # Comments of a value that gets another type move above its key.
    assert new.startswith("".join(lines[: start.line - 1]))
    if isinstance(random_edit, RenameKey | ReplaceText):
        assert new.endswith("".join(lines[end.line :]))


@pytest.mark.parametrize("part", range(4))
def test_edits_of_real_manifests(shared: Callable[[str], Path], part: int) -> None:
    folder = shared("manifests/README.md").parent
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
    assert len(files) > 100
    count = 0
    for file in files[part::4]:
        text = file.read_text("utf-8")
        for document in load_text(text, file.name).documents:
            random = Random(f"{file.name}{document.index}")
            for _ in range(2):
                random_edit = edit(random, document.tree)
                new = rewrite(text, file.name, [(document, random_edit)])
                assert json_equal(
                    load_text(new).documents[document.index].tree, apply_edits(document.tree, [random_edit])
                )
                count += 1
    assert count > 100
