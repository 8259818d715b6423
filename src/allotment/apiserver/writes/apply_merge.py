"""Merges an applied configuration into the live object: applied values win, other fields stay.

Keyed lists and sets are merged: in the order of the applied list where it determines one, else in the live order.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.writes.apply_schema import Structure
from allotment.model.trees import Tree

#: Stands for an absent value, in contrast to null.
ABSENT: Final = object()


def merge(structure: Structure, live: Any, applied: Any) -> Any:
    """The merged value; ``ABSENT`` if it is empty."""
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
        return _merge_items(structure, live or [], applied or [])
    return _merge_members(structure, live or {}, applied or {})


def _merge_members(structure: Structure, live: Tree, applied: Tree) -> Any:
    result = dict(live)
    for name, value in applied.items():
        merged_value = merge(structure.field(name)[1], live.get(name, ABSENT), value)
        if merged_value is ABSENT:
            result.pop(name, None)
        else:
            result[name] = merged_value
    return result or ABSENT


def _merge_items(structure: Structure, live: list[Any], applied: list[Any]) -> Any:
    inner = structure.element
    assert inner is not None
    live_pairs = [(structure.item(item), item) for item in live]
    applied_pairs = [(structure.item(item), item) for item in applied]
    applied_items = dict(applied_pairs)
    live_items: dict[str, Any] = {}
    for element, item in live_pairs:
        # Duplicates in the live list are not merged: the applied item replaces all of them.
        live_items[element] = ABSENT if element in live_items else item
    pending = [element for element, _ in applied_pairs if element in live_items]
    pending.reverse()
    result: list[Any] = []
    done: set[str] = set()

    def append_merged(element: str) -> None:
        done.add(element)
        merged_value = merge(inner, live_items.get(element, ABSENT), applied_items[element])
        if merged_value is not ABSENT:
            result.append(merged_value)
        if pending and pending[-1] == element:
            pending.pop()

    left = right = 0
    while left < len(live_pairs) or right < len(applied_pairs):
        if left < len(live_pairs) and right < len(applied_pairs):
            element = live_pairs[left][0]
            if element == applied_pairs[right][0]:
                append_merged(element)
                left += 1
                right += 1
                continue
            if element in applied_items and pending and pending[-1] != element:
                left += 1  # the applied order places it elsewhere
                continue
        if left < len(live_pairs):
            element, item = live_pairs[left]
            if element not in applied_items:
                result.append(item)
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(applied_pairs):
            append_merged(applied_pairs[right][0])
            right += 1
    return result or ABSENT
