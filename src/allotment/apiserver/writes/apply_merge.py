"""An applied configuration merged into the live object: leaves are the applied ones, the rest stays.

Lists by keys and sets are joined: the order of the applied list where it says something, the live order else.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.writes.apply_schema import Structure
from allotment.model.trees import Tree

#: There is no value on this side; null is one.
ABSENT: Final = object()


def merged(structure: Structure, live: Any, applied: Any) -> Any:
    """Both in one; ``ABSENT`` if nothing is left of either."""
    if applied is ABSENT:
        return live
    if live is ABSENT:
        return applied
    relation = structure.relation
    if relation == "leaf":
        return applied
    if relation == "deduced":
        if type(applied) is not dict and not (applied is None and type(live) is dict):
            return applied
        if type(live) is not dict:
            return applied
    if not live and not applied:
        return applied
    if relation == "keyed" or relation == "set":
        return _items(structure, live or [], applied or [])
    return _members(structure, live or {}, applied or {})


def _members(structure: Structure, live: Tree, applied: Tree) -> Any:
    result = dict(live)
    for name, value in applied.items():
        made = merged(structure.field(name)[1], live.get(name, ABSENT), value)
        if made is ABSENT:
            result.pop(name, None)
        else:
            result[name] = made
    return result or ABSENT


def _items(structure: Structure, live: list[Any], applied: list[Any]) -> Any:
    inner = structure.element
    assert inner is not None
    theirs = [(structure.item(item), item) for item in live]
    ours = [(structure.item(item), item) for item in applied]
    our_items = dict(ours)
    their_items: dict[str, Any] = {}
    for element, item in theirs:
        # What stands twice in the live list is not merged with: the applied item replaces all of it.
        their_items[element] = ABSENT if element in their_items else item
    awaited = [element for element, _ in ours if element in their_items]
    awaited.reverse()
    joined: list[Any] = []
    done: set[str] = set()

    def take(element: str) -> None:
        done.add(element)
        made = merged(inner, their_items.get(element, ABSENT), our_items[element])
        if made is not ABSENT:
            joined.append(made)
        if awaited and awaited[-1] == element:
            awaited.pop()

    left = right = 0
    while left < len(theirs) or right < len(ours):
        if left < len(theirs) and right < len(ours):
            element = theirs[left][0]
            if element == ours[right][0]:
                take(element)
                left += 1
                right += 1
                continue
            if element in our_items and awaited and awaited[-1] != element:
                left += 1  # it stands elsewhere in the applied order
                continue
        if left < len(theirs):
            element, item = theirs[left]
            if element not in our_items:
                joined.append(item)
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(ours):
            take(ours[right][0])
            right += 1
    return joined or ABSENT
