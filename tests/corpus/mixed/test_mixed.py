"""Clusters in which several things are wrong: for every cause of a refusal a world with busy neighbours, cordons,
taints, devices of other tenants or a second mistake.

A world has the format of ``tests/corpus``, and states the right first remedy, which no update of the texts changes:

- ``change:`` with an object, and a second line with a field and its value, as ``explain`` prints them; without a value
  the field is removed. No other field may change.
- ``says: TEXT``, a part of the remedy that changes no field of an object, because a driver or an administrator of nodes
  must act. ``means:`` is the effect on the objects, in the form of ``change:``, with which the remedy is verified.

Without these lines no remedy is right. ``ALLOTMENT_UPDATE_CORPUS=1`` regenerates the texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from allotment.engine.allocator import Allocator
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import CODES, SuggestedChange
from allotment.explanation import Answer, Explanation, explain, lines
from allotment.explanation.next_step import with_next_steps
from allotment.model.trees import Tree
from tests.corpus import test_corpus as corpus
from tests.manifest_changes import apply_change

HERE = Path(__file__).parent
WORLDS = sorted(path.stem for path in HERE.glob("*.yaml"))
#: Codes that no scenario of ``tests/corpus`` has.
WITHOUT_SCENARIO = {"claim-in-use", "feature-off", "not-explained"}
#: Steps of a search, instead of 200000: enough for every world except those about searches that are given up.
STEPS = 2000


class Edit(NamedTuple):
    """A field of an object and its new value as JSON; ``null`` if the field is removed."""

    object: str
    path: str
    value: str


class FirstRemedy(NamedTuple):
    """The remedy that a world calls right."""

    changes: frozenset[Edit]
    says: tuple[str, ...]
    means: tuple[Edit, ...]


@pytest.fixture(autouse=True, scope="module")
def short_searches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Allocator.__init__, "__defaults__", (None, STEPS))
        yield


def scenario(name: str) -> corpus.Scenario:
    return corpus.Scenario(f"mixed/{name}")


def expected(name: str) -> FirstRemedy:
    """The right first remedy, from the leading comment."""
    comment = (HERE / f"{name}.yaml").read_text("utf-8").partition("---")[0]
    stated = re.findall(r"^# (change|says|means): (.+(?:\n#   .+)?)$", comment, re.MULTILINE)
    return FirstRemedy(
        frozenset(_edit(text) for key, text in stated if key == "change"),
        tuple(text for key, text in stated if key == "says"),
        tuple(_edit(text) for key, text in stated if key == "means"),
    )


def _edit(text: str) -> Edit:
    found = re.fullmatch(r"(.+)\n#   (\S+?)(?:: (.+))?", text)
    assert found is not None, text
    object_, path, value = found.groups()
    return Edit(object_, path, json.dumps(value if path.endswith("expression") else yaml.safe_load(value or "null")))


@cache
def explained(name: str, *, to_tenant: bool = False) -> Explanation:
    """The answer to an administrator, or to the pod's own namespace, as in events."""
    world = scenario(name)
    return explain(world.values, world.features, readers=Reader.of) if to_tenant else world.explain()


def refused(explanation: Explanation) -> Answer:
    return next(answer for answer in explanation.answers if answer.reasons is not None)


def first_remedy(explanation: Explanation) -> Sequence[SuggestedChange]:
    answer = refused(explanation)
    assert answer.reasons is not None
    return answer.reasons.headline.changes


# --- changes as edits -------------------------------------------------------------------------------------------------


def trees(world: corpus.Scenario) -> list[Tree]:
    return [json.loads(json.dumps(document.tree)) for document in world.documents]


def name_of(tree: Tree) -> str:
    """``Kind namespace/name``."""
    metadata = tree["metadata"]
    return f"{tree['kind']} {'/'.join(part for part in (metadata.get('namespace'), metadata['name']) if part)}"


def edits(before: Iterable[Tree], after: Iterable[Tree]) -> frozenset[Edit]:
    """The fields in which objects differ."""
    return frozenset(
        Edit(name_of(old), path, json.dumps(value))
        for old, new in zip(before, after, strict=True)
        for path, value in _differences(old, new, "")
    )


def _differences(old: object, new: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _differences(old.get(key), new.get(key), _joined(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif old != new:
        yield path, new


def _joined(path: str, key: str) -> str:
    return f'{path}["{key}"]' if "." in key else f"{path}.{key}" if path else key


def apply_edit(objects: Iterable[Tree], edit: Edit) -> None:
    change = SuggestedChange(text="", object=edit.object, path=edit.path, becomes=json.loads(edit.value))
    assert apply_change(objects, change), edit


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_cause_and_text(name: str) -> None:
    explanation = explained(name)
    world = scenario(name)
    text = "\n".join(lines(with_next_steps(explanation, world.cluster))) + "\n"
    assert corpus.code(explanation) == world.code, text
    golden = HERE / f"{name}.txt"
    if corpus.UPDATE:
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


@pytest.mark.parametrize("name", WORLDS)
def test_the_first_remedy_is_the_right_one_and_makes_the_pod_fit(name: str) -> None:
    """Applied to the manifests, read back, and decided."""
    world, right = scenario(name), expected(name)
    remedy = first_remedy(explained(name))
    changed = trees(world)
    texts = tuple(change.text for change in remedy if not apply_change(changed, change))
    assert edits(trees(world), changed) == right.changes, texts
    assert texts == right.says
    if not remedy:
        return
    for edit in right.means:
        apply_edit(changed, edit)
    again = corpus.Scenario(
        f"mixed/{name}", "---\n".join(json.dumps(tree) + "\n" for tree in changed).encode()
    ).explain()
    answer = refused(explained(name))
    assert next(a for a in again.answers if a.name == answer.name).fits, "\n".join(lines(again))


@pytest.mark.parametrize("name", WORLDS)
def test_a_tenant_gets_the_same_answer_without_names_of_other_tenants(name: str) -> None:
    world = scenario(name)
    explanation = explained(name, to_tenant=True)
    text = "\n".join(lines(explanation))
    assert corpus.code(explanation) == corpus.head(f"mixed/{name}").get("event", world.code), text
    own = refused(explanation).name.partition("/")[0]
    assert not words(text) & names_of_others(world, own), text


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+(?:\.[\w-]+)*", text))


def names_of_others(world: corpus.Scenario, own: str) -> set[str]:
    """The names of other namespaces, their objects and pods, without words that the own or shared objects contain."""
    names, known = set[str](), set[str]()
    for tree in trees(world):
        metadata, users = tree["metadata"], tree.get("status", {}).get("reservedFor", [])
        if metadata.get("namespace", own) == own:
            known |= words(json.dumps(tree))
        else:
            names |= {metadata["name"], metadata["namespace"], *(user["name"] for user in users)}
    return names - known


@pytest.mark.parametrize("name", WORLDS)
def test_same_cause_while_unrelated_devices_are_in_use(name: str) -> None:
    corpus.test_same_code_while_unrelated_devices_are_in_use(f"mixed/{name}")


@pytest.mark.parametrize("name", WORLDS)
def test_a_printed_value_can_be_pasted(name: str) -> None:
    corpus.test_a_printed_value_can_be_pasted(f"mixed/{name}")


def test_every_cause_has_a_world() -> None:
    assert {corpus.head(f"mixed/{name}")["code"] for name in WORLDS} == set(CODES) - WITHOUT_SCENARIO


def test_every_text_has_a_world() -> None:
    assert sorted(path.stem for path in HERE.glob("*.txt")) == WORLDS
