"""The messages of a flow's conditions and events: Allotment's may say more than the recorded ones, never less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from allotment.model.trees import Tree
from tests.vectors.apiserver.masking import masked

#: Events of two pods that used one claim at the same time; here they may not.
_CONFLICTS: Final = ("in the process of being allocated", "got allocated elsewhere in the meantime")

Events = Sequence[tuple[str, str, str]]


def missing_message(snapshot: Tree, pods: Sequence[Tree], events: Sequence[Tree], others: Sequence[Tree] = ()) -> str:
    """The first recorded message that Allotment's messages do not contain; an empty string if there is none.

    Which of the messages of its group a waiting pod has depends on the order in which the pods were tried: its own
    message must contain one of those that the recorded pods of the group have.
    """
    actual, recorded = _by_object(pods), _by_object(snapshot["pods"])
    free = _of_groups(snapshot["pods"])
    for name, messages in recorded.items():
        for message in messages:
            allowed = free.get(name, (message,))
            if not any(text in own for own in actual.get(name, ()) for text in allowed):
                return f"pod {name}: {message!r} is missing in {actual.get(name)}"
    actual_others = _by_object(others)
    for name, messages in _by_object(snapshot.get("others") or ()).items():
        for message in messages:
            if not any(message in own for own in actual_others.get(name, ())):
                return f"{name}: {message!r} is missing in {actual_others.get(name)}"
    return _missing_event(snapshot["events"], [_event(event) for event in events], free)


def _missing_event(recorded: Sequence[Tree], actual: Events, free: Mapping[str, Sequence[str]]) -> str:
    for event in recorded:
        kind, reason, note = _event(event)
        if any(conflict in note for conflict in _CONFLICTS):
            continue
        allowed = free.get(masked((event.get("regarding") or {}).get("name") or ""), (note,))
        if not any((k, r) == (kind, reason) and any(text in n for text in (note, *allowed)) for k, r, n in actual):
            return f"event {kind} {reason} {note!r} is not among {actual}"
    return ""


def _event(event: Tree) -> tuple[str, str, str]:
    return (event.get("type") or "", event.get("reason") or "", masked(event.get("note") or ""))


def _by_object(trees: Sequence[Tree]) -> dict[str, list[str]]:
    """The messages of conditions, by the name of the object."""
    result: dict[str, list[str]] = {}
    for tree in trees:
        result.setdefault(masked(tree["metadata"]["name"]), []).extend(_messages(tree))
    return result


def _of_groups(pods: Sequence[Tree]) -> Mapping[str, Sequence[str]]:
    """The messages of all pods of a group, by the name of each of its pods."""
    groups: dict[str, list[Tree]] = {}
    for tree in pods:
        group = (tree["spec"].get("schedulingGroup") or {}).get("podGroupName")
        if group:
            groups.setdefault(group, []).append(tree)
    result: dict[str, Sequence[str]] = {}
    for members in groups.values():
        messages = [message for member in members for message in _messages(member)]
        result |= {masked(member["metadata"]["name"]): messages for member in members}
    return result


def _messages(tree: Tree) -> list[str]:
    return [
        masked(condition["message"])
        for condition in (tree.get("status") or {}).get("conditions") or ()
        if condition.get("message")
    ]
