"""Fixes are applied in passes until no applicable fix is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from allotment.model.editing.edits import Edit, Nest, Remove, RenameKey, ReplaceText, SetValue
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.fixer import FixResult, fix
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.check.rules import RULES
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of, example_bundle

Finder = Callable[[Document], Iterator[RuleMatch]]


def rule(find: Finder, code: str = "S101") -> Rule:
    def all_found(bundle: Bundle) -> Iterable[RuleMatch]:
        for document in bundle.documents:
            yield from find(document)

    return Rule(code, "a-test", "shape", "error", "A test", "Because.", "", "", all_found)


def replacing(key: str, old: Any, new: Any, *, safe: bool = True, level: Level | None = None) -> Finder:
    """A rule function that finds ``key: old`` and replaces the value with ``new``."""

    def find(document: Document) -> Iterator[RuleMatch]:
        if document.tree.get(key) == old:
            edits: tuple[tuple[Document, Edit], ...] = ((document, SetValue((key,), new)),)
            yield RuleMatch(document, (key,), f"{key} is {old}", fix=Fix(f"write {new}", edits, safe), level=level)

    return find


def run_fixer(text: str | Mapping[str, str], *finders: Finder, unsafe: bool = False) -> FixResult:
    rules = [rule(finder, f"S{101 + number}") for number, finder in enumerate(finders)]
    return fix(bundle_of(text), unsafe=unsafe, rules=rules)


def codes(fixed: FixResult) -> tuple[list[str], list[str]]:
    return [finding.code for finding in fixed.applied], [finding.code for finding in fixed.remaining]


def test_unsafe_fixes_only_if_requested() -> None:
    finders = (replacing("a", 1, 2, safe=False), replacing("b", 1, 2))
    fixed = run_fixer("a: 1 # a\nb: 1\n", *finders)
    assert fixed.texts == {"file.yaml": "a: 1 # a\nb: 2\n"}
    assert codes(fixed) == (["S102"], ["S101"])
    assert run_fixer("a: 1 # a\nb: 1\n", *finders, unsafe=True).texts == {"file.yaml": "a: 2 # a\nb: 2\n"}


def test_safe_fixes_are_applied_first() -> None:
    fixed = run_fixer("a: 1\n", replacing("a", 1, "guessed", safe=False), replacing("a", 1, "sure"), unsafe=True)
    assert fixed.texts == {"file.yaml": "a: sure\n"}


def test_errors_are_fixed_before_guesses_about_warnings() -> None:
    warning = replacing("a", 1, "guessed", safe=False, level="warning")
    fixed = run_fixer("a: 1\n", warning, replacing("a", 1, "tested", safe=False), unsafe=True)
    assert fixed.texts == {"file.yaml": "a: tested\n"}


def test_hidden_mistakes_are_fixed_in_later_passes() -> None:
    fixed = run_fixer("a: 1\n", replacing("a", 3, 4), replacing("a", 2, 3), replacing("a", 1, 2))
    assert fixed.texts == {"file.yaml": "a: 4\n"}
    assert codes(fixed) == (["S103", "S102", "S101"], [])


def test_conflicting_fixes_are_applied_in_separate_passes() -> None:
    def renamed(document: Document) -> Iterator[RuleMatch]:
        if "a" in document.tree:
            yield RuleMatch(document, ("a",), "a", fix=Fix("", ((document, RenameKey(("a",), "b")),), safe=True))

    def inner(document: Document) -> Iterator[RuleMatch]:
        for key, value in document.tree.items():
            if isinstance(value, dict) and value.get("x") == 1:
                edit = SetValue((key, "x"), 2)
                yield RuleMatch(document, (key, "x"), "x", fix=Fix("", ((document, edit),), safe=True))

    assert run_fixer("a: {x: 1}\n", renamed, inner).texts == {"file.yaml": "b: {x: 2}\n"}
    assert run_fixer("a: {x: 1}\n", inner, renamed).texts == {"file.yaml": "b: {x: 2}\n"}


def test_parts_of_one_string_are_fixed_in_one_pass() -> None:
    def doubled(document: Document) -> Iterator[RuleMatch]:
        text = document.tree["a"]
        for number, letter in enumerate(text):
            if letter == "x":
                edit = ReplaceText(("a",), number, number + 1, "yy")
                yield RuleMatch(
                    document, ("a",), "x", fix=Fix("", ((document, edit),), safe=True), span=(number, number + 1)
                )

    calls = 0

    def find(bundle: Bundle) -> Any:
        nonlocal calls
        calls += 1
        return check(bundle, [rule(doubled)])

    fixed = fix(bundle_of("a: 'x x x'\n"), unsafe=False, find=find)
    assert fixed.texts == {"file.yaml": "a: 'yy yy yy'\n"}
    assert calls == 2


def test_identical_fixes_of_two_rules_are_applied_once() -> None:
    fixed = run_fixer("a: 1\n", replacing("a", 1, 2), replacing("a", 1, 2))
    assert codes(fixed) == (["S101", "S102"], [])


def test_impossible_fix_is_reported_and_does_not_block_others() -> None:
    def impossible(document: Document) -> Iterator[RuleMatch]:
        edits: tuple[tuple[Document, Edit], ...] = ((document, SetValue(("a",), 9)), (document, Remove(("nothing",))))
        yield RuleMatch(document, ("a",), "a", fix=Fix("", edits, safe=True))

    fixed = run_fixer("a: 1\nb: 1\n", impossible, replacing("b", 1, 2))
    assert fixed.texts == {"file.yaml": "a: 1\nb: 2\n"}
    assert codes(fixed) == (["S102"], ["S101"])
    assert [(finding.code, reason) for finding, reason in fixed.unfixable] == [("S101", "nothing not found")]


def test_ineffective_fix_is_applied_once() -> None:
    def restless(document: Document) -> Iterator[RuleMatch]:
        edit = SetValue(("m",), document.tree["m"] + 1)
        yield RuleMatch(document, ("m",), "m", fix=Fix("", ((document, edit),), safe=True))

    fixed = run_fixer("m: 1\n", restless)
    assert fixed.texts == {"file.yaml": "m: 2\n"}
    assert [reason for _, reason in fixed.unfixable] == ["the fix does not remove the finding"]


def test_findings_reported_one_at_a_time_are_all_fixed() -> None:
    def first(document: Document) -> Iterator[RuleMatch]:
        at = document.tree["a"].find("x")
        if at >= 0:
            edit = ReplaceText(("a",), at, at + 1, "yy")
            yield RuleMatch(document, ("a",), "x", fix=Fix("", ((document, edit),), safe=True), span=(at, at + 1))

    fixed = run_fixer("a: 'x x x'\n", first)
    assert fixed.texts == {"file.yaml": "a: 'yy yy yy'\n"}
    assert fixed.unfixable == ()


def test_objects_with_the_same_name_are_distinguished() -> None:
    finders = (replacing("a", 1, 2), replacing("a", 2, 3))
    assert run_fixer("a: 1\n---\na: 2\n", *finders).texts == {"file.yaml": "a: 3\n---\na: 3\n"}


def test_impossible_fix_does_not_rewrite_other_files_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(document: Document) -> Iterator[RuleMatch]:
        if "b" in document.tree:
            edits: tuple[tuple[Document, Edit], ...] = ((document, Remove(("nothing",))),)
            yield RuleMatch(document, ("b",), "b", fix=Fix("", edits, safe=True))

    rewritten: list[str] = []

    def counting(source: str, file: str, edits: Any) -> str:
        rewritten.append(file)
        return rewrite(source, file, edits)

    monkeypatch.setattr("allotment.tools.check.fixer.rewrite", counting)
    files = {f"{number}.yaml": "a: 1\n" for number in range(20)} | {"bad.yaml": "a: 1\nb: 1\n"}
    fixed = run_fixer(files, impossible, replacing("a", 1, 2))
    assert len(fixed.texts) == 21
    assert max(rewritten.count(file) for file in files if file != "bad.yaml") == 1


def test_fixes_that_undo_each_other_terminate() -> None:
    fixed = run_fixer("a: 1\n", replacing("a", 1, 2), replacing("a", 2, 3), replacing("a", 3, 2))
    assert fixed.texts == {"file.yaml": "a: 2\n"}
    assert run_fixer(fixed.texts, replacing("a", 2, 3), replacing("a", 3, 2)).texts == {}


def test_edits_of_several_files_are_atomic() -> None:
    def both(bundle: Bundle) -> Iterable[RuleMatch]:
        first, second = bundle.documents
        if first.tree["a"] != second.tree.get("b"):
            edits: tuple[tuple[Document, Edit], ...] = (
                (first, SetValue(("a",), 3)),
                (second, RenameKey(("c",), "d") if "c" in second.tree else SetValue(("b",), 3)),
            )
            yield RuleMatch(first, ("a",), "a", fix=Fix("", edits, safe=True))

    rules = [Rule("S101", "a-test", "shape", "error", "A test", "Because.", "", "", both)]
    assert fix(bundle_of({"1": "a: 1\n", "2": "b: 2\n"}), unsafe=False, rules=rules).texts == {
        "1": "a: 3\n",
        "2": "b: 3\n",
    }
    fixed = fix(bundle_of({"1": "a: 1\n", "2": "c: 2\nd: 3\n"}), unsafe=False, rules=rules)
    assert fixed.texts == {}
    assert [reason for _, reason in fixed.unfixable] == ["d already exists next to c"]


def test_excluded_documents_stay_excluded() -> None:
    complete = bundle_of("a: 1\n---\na: 1\n---\na: 1\n")
    bundle = Bundle([complete.documents[0], complete.documents[2]], complete.settings)
    document_counts: list[int] = []

    def evaluate(edited: Bundle) -> Any:
        document_counts.append(len(edited.documents))
        return check(edited, [rule(replacing("a", 1, 2))])

    assert fix(bundle, unsafe=False, find=evaluate).texts == {"file.yaml": "a: 2\n---\na: 1\n---\na: 2\n"}
    assert document_counts == [2, 2]


def test_nested_fields_do_not_conflict_with_siblings() -> None:
    def flat(document: Document) -> Iterator[RuleMatch]:
        if "a" in document.tree:
            yield RuleMatch(document, ("a",), "a", fix=Fix("", ((document, Nest((), ("a",), "under")),), safe=True))

    fixed = run_fixer("b: 1\na: 1\n", flat, replacing("b", 1, 2))
    assert fixed.texts == {"file.yaml": "b: 2\nunder:\n  a: 1\n"}
    assert codes(fixed) == (["S102", "S101"], [])


def test_fixed_findings_have_their_places_in_the_original_text() -> None:
    def flat(document: Document) -> Iterator[RuleMatch]:
        if "a" in document.tree:
            edits: tuple[tuple[Document, Edit], ...] = ((document, Nest((), ("a",), "under")),)
            yield RuleMatch(document, ("a",), "a", fix=Fix("", edits, safe=True))

    def nested(document: Document) -> Iterator[RuleMatch]:
        if document.tree.get("under") == {"a": 1}:
            edits: tuple[tuple[Document, Edit], ...] = ((document, SetValue(("under", "a"), 2)),)
            yield RuleMatch(document, ("under", "a"), "a", fix=Fix("", edits, safe=True))

    def after(document: Document) -> Iterator[RuleMatch]:
        if "under" in document.tree and document.tree.get("b") == 1:
            edits: tuple[tuple[Document, Edit], ...] = ((document, SetValue(("b",), 12)),)
            yield RuleMatch(document, ("b",), "b", fix=Fix("", edits, safe=True))

    fixed = run_fixer("a: 1\nb: 1\n", flat, nested, after)
    assert fixed.texts == {"file.yaml": "under:\n  a: 2\nb: 12\n"}
    places = {finding.code: (finding.where.line, finding.where.column) for finding in fixed.applied}
    assert places == {"S101": (1, 4), "S102": (1, 4), "S103": (2, 4)}


def test_a_finding_in_an_added_line_is_placed_at_the_line_before() -> None:
    added = replacing("b", 1, 2)

    def adding(document: Document) -> Iterator[RuleMatch]:
        if "b" not in document.tree:
            edits: tuple[tuple[Document, Edit], ...] = ((document, SetValue(("b",), 1)),)
            yield RuleMatch(document, (), "b", fix=Fix("", edits, safe=True))

    fixed = run_fixer("# file\na: 1\n", adding, added)
    assert fixed.texts == {"file.yaml": "# file\na: 1\nb: 2\n"}
    assert [finding.where.line for finding in fixed.applied] == [2, 2]


@pytest.mark.parametrize("checked_rule", RULES, ids=lambda rule: f"{rule.code}-{rule.name}")
def test_fixes_are_idempotent(checked_rule: Rule) -> None:
    bundle = example_bundle(checked_rule, checked_rule.bad)
    texts = fix(bundle, unsafe=True).texts
    for text in texts.values():
        assert fix(example_bundle(checked_rule, text), unsafe=True).texts == {}
