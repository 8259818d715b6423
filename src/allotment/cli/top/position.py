"""Where the reader of ``allot top`` is, and what each key changes. Pure: keys in, positions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from allotment.cli.top.rows import GroupRow, NodeRow, Overview

Pane = Literal["nodes", "pending"]
#: Keys that move by one row, by a page, or to an end.
_STEPS: Final = {"up": -1, "down": 1, "k": -1, "j": 1}
_PAGES: Final = {"page up": -1, "page down": 1, "left": -1, "right": 1}
_ENDS: Final = {"home": 0, "end": -1}


class Position(NamedTuple):
    """The selected rows are named, because rows move when the cluster changes.

    ``opened``: the selected row fills the screen, from line ``scroll``. ``typing``: keys extend ``filter``.
    """

    pane: Pane = "pending"
    node: str = ""
    group: str = ""
    opened: bool = False
    scroll: int = 0
    filter: str = ""
    typing: bool = False


def nodes_shown(shown: Overview, position: Position) -> Sequence[NodeRow]:
    """Return the nodes that contain all words of the filter."""
    return [node for node in shown.nodes if _matches(node.text, position.filter)]


def groups_shown(shown: Overview, position: Position) -> Sequence[GroupRow]:
    """Return the groups that contain all words of the filter."""
    return [group for group in shown.groups if _matches(group.text, position.filter)]


def focused(position: Position, shown: Overview) -> Position:
    """Return the position; while nothing is pending, the keys move over the nodes."""
    return position if shown.groups else position._replace(pane="nodes")


def selected_group(position: Position, shown: Overview) -> GroupRow | None:
    """Return the selected group, or None without groups."""
    groups = groups_shown(shown, position)
    return groups[selected([group.id for group in groups], position.group)] if groups else None


def _matches(text: str, words: str) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words.casefold().split())


def selected(names: Sequence[str], name: str) -> int:
    """Return the row of a name; the first one if it is gone, and -1 without rows."""
    return names.index(name) if name in names else min(0, len(names) - 1)


def pressed(key: str, position: Position, shown: Overview, page: int) -> Position | None:
    """Return the position after a key, or None to end. ``page``: the rows or lines of a page."""
    position = focused(position, shown)
    if position.typing:
        return _typed(key, position)
    if key == "q":
        return None
    if key == "/":
        return position._replace(typing=True, opened=False)
    if position.opened:
        return _read(key, position, page)
    if key == "escape":
        return position._replace(filter="")
    if key == "tab":
        return position._replace(pane="nodes" if position.pane == "pending" else "pending")
    if key == "enter":
        return position._replace(opened=bool(_names(position, shown)), scroll=0)
    return _moved(key, position, shown, page)


def _typed(key: str, position: Position) -> Position:
    if key == "enter":
        return position._replace(typing=False)
    if key == "escape":
        return position._replace(typing=False, filter="")
    if key == "backspace":
        return position._replace(filter=position.filter[:-1])
    return position._replace(filter=position.filter + key) if len(key) == 1 else position


def _read(key: str, position: Position, page: int) -> Position:
    """Scroll in an opened row, or go back."""
    if key in ("escape", "enter", "backspace"):
        return position._replace(opened=False, scroll=0)
    by = _STEPS.get(key, 0) + _PAGES.get(key, 0) * page
    return position._replace(scroll=0 if key == "home" else max(position.scroll + by, 0))


def _moved(key: str, position: Position, shown: Overview, page: int) -> Position:
    names = _names(position, shown)
    if not names:
        return position
    row = selected(names, position.node if position.pane == "nodes" else position.group)
    if key in _ENDS:
        row = _ENDS[key] % len(names)
    else:
        row = max(0, min(row + _STEPS.get(key, 0) + _PAGES.get(key, 0) * page, len(names) - 1))
    return position._replace(node=names[row]) if position.pane == "nodes" else position._replace(group=names[row])


def _names(position: Position, shown: Overview) -> Sequence[str]:
    if position.pane == "nodes":
        return [node.name for node in nodes_shown(shown, position)]
    return [group.id for group in groups_shown(shown, position)]
