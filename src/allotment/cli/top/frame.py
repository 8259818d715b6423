"""One picture of ``allot top``: lines of text for a terminal of a given size. Pure: it neither reads nor writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allotment.cli.output.console import Screen, folded, shorten, visible
from allotment.cli.top.position import Position, focused, groups_shown, nodes_shown, selected
from allotment.cli.top.rows import GLYPHS, MIXED, GroupRow, NodeRow, Overview, compact

#: Without a size: every row is printed.
_COLUMNS: Final = 80
_COLOURS: Final = {"~": "cyan", "%": "yellow", "#": "magenta", "!": "red", "-": "dim", "/": "dim", ".": "green"}
_KEYS: Final = "arrows select   Enter reason   Tab nodes/pending   / filter   q end"
_FILTERED: Final = "Esc clear   Enter reason   q end"
_BACK: Final = "arrows scroll   Esc back   / filter   q end"
_UNREAD: Final = "q end"
#: Lines around the rows: two at the top, a blank line and a title for each table, and the keys.
_FIXED: Final = 7
_LEAST_GROUPS: Final = 4
_NAME, _KINDS = 28, 18


class Size(NamedTuple):
    """The size of the terminal; without ``lines``, all rows are shown."""

    columns: int = _COLUMNS
    lines: int | None = None


class Part(NamedTuple):
    """A text in one colour."""

    text: str
    colour: str = ""


def frame(shown: Overview, position: Position, size: Size, reason: Sequence[str] = ()) -> list[list[Part]]:
    """Return the lines; ``reason``: those of the selected group, which are shown if it is opened."""
    position = focused(position, shown)
    top = _head(shown, size.columns)
    if shown.error and not shown.seen_at:
        body, keys = [[], [Part("  nothing has been read yet")]], _UNREAD
    elif position.opened:
        body = _opened(shown, position, size, reason)
        keys = _BACK
    else:
        body = list(_tables(shown, position, size))
        keys = _KEYS
    if size.lines is None:
        return [*top, *body]
    room = max(size.lines - len(top) - 1, 0)
    filled = [*body[:room], *([[]] * (room - len(body)))]
    return [*top, *filled, [Part(_footer(position, keys), "dim")]]


def painted(lines: Iterable[Sequence[Part]], screen: Screen, columns: int) -> list[str]:
    """Return the lines as text of at most ``columns`` columns, in colour if the screen has it."""
    out = []
    for line in lines:
        room, text = columns, ""
        for part in line:
            if room <= 0:
                break
            piece = shorten(visible(part.text), room)
            text += screen.paint(piece, part.colour) if part.colour and piece else piece
            room -= len(piece)
        out.append(text)
    return out


def window(row: int, count: int, room: int) -> range:
    """Return the rows that are visible with ``row`` among them.

    >>> window(0, 5, 3), window(3, 5, 3), window(4, 5, 9)
    (range(0, 3), range(2, 5), range(0, 5))
    """
    start = max(0, min(row - room // 2, count - room))
    return range(start, min(start + room, count))


def _head(shown: Overview, columns: int) -> list[list[Part]]:
    stamp = shown.seen_at[11:19]
    first = [Part(shown.title, "bold")]
    if shown.error:
        first.append(Part(f"  not connected since {stamp}: {shown.error}" if stamp else f"  {shown.error}", "red"))
    elif stamp:
        first.append(Part(f"  at {stamp} UTC"))
    if shown.error and not stamp:
        return [first, []]
    unread = f"; not readable: {', '.join(shown.unread)}" if shown.unread else ""
    return [first, [Part(shorten(shown.totals + unread, columns))]]


def _footer(position: Position, keys: str) -> str:
    if position.typing:
        return f"/{position.filter}_   Enter keep   Esc clear"
    return f"filter: {position.filter}   {_FILTERED}" if position.filter else keys


def _tables(shown: Overview, position: Position, size: Size) -> Iterator[list[Part]]:
    nodes, groups = nodes_shown(shown, position), groups_shown(shown, position)
    room_nodes, room_groups = _rooms(len(nodes), len(groups), size.lines)
    yield []
    at = selected([node.name for node in nodes], position.node)
    rows = window(at, len(nodes), room_nodes)
    yield [*_title("NODES", rows, len(nodes), position.pane == "nodes"), *_legend(shown)]
    yield from _node_lines(
        [nodes[n] for n in rows], nodes[at].name if nodes and _marks(position, "nodes", size) else "", size
    )
    if not nodes:
        yield [Part("  no node publishes devices" if not shown.nodes else "  no node matches the filter")]
    yield []
    at = selected([group.id for group in groups], position.group)
    rows = window(at, len(groups), room_groups)
    yield _title("PENDING", rows, len(groups), position.pane == "pending")
    mark = groups[at].id if groups and _marks(position, "pending", size) else ""
    yield from _group_lines([groups[n] for n in rows], mark, size)
    if shown.problem:
        yield [Part(f"  {shown.problem}", "red")]
    elif not groups:
        yield [Part("  no pod is pending" if not shown.groups else "  no pending pod matches the filter")]


def _legend(shown: Overview) -> Iterator[Part]:
    for state in shown.states:
        yield Part("   ")
        yield Part(GLYPHS[state], _COLOURS[GLYPHS[state]])
        yield Part(f" {state}")
    if any(compact(card) == MIXED for node in shown.nodes for card in node.cards):
        yield Part(f"   {MIXED} in part")


def _marks(position: Position, pane: str, size: Size) -> bool:
    return size.lines is not None and position.pane == pane


def _rooms(nodes: int, groups: int, lines: int | None) -> tuple[int, int]:
    """Return the rows for nodes and for groups: what one does not need, the other gets."""
    if lines is None:
        return nodes, groups
    room = max(lines - _FIXED, 2)
    of_groups = min(groups, max(_LEAST_GROUPS, room // 2, room - nodes))
    return max(room - max(of_groups, 1), 1), of_groups


def _title(name: str, rows: range, count: int, has_focus: bool) -> list[Part]:
    some = f" {rows.start + 1}-{rows.stop} of {count}" if len(rows) < count else f" {count}"
    return [Part(f"{name}{some}", "bold" if has_focus else "")]


def _node_lines(nodes: Sequence[NodeRow], mark: str, size: Size) -> Iterator[list[Part]]:
    name = min(max((len(node.name) for node in nodes), default=0), _NAME)
    kinds = min(max((len(node.kinds) for node in nodes), default=0), _KINDS)
    counts = [f"{node.free} of {node.total} free" for node in nodes]
    last = max(map(len, counts), default=0)
    room = size.columns - name - kinds - last - 7
    for node, free in zip(nodes, counts, strict=True):
        cells = _cells(node.cards, room)
        width = sum(len(part.text) for part in cells)
        here = node.name == mark
        yield [
            Part("> " if here else "  "),
            Part(f"{shorten(node.name, name):<{name}}  ", "bold" if here else ""),
            Part(f"{shorten(node.kinds, kinds):<{kinds}}  "),
            *cells,
            Part(" " * max(room - width, 0) + f" {free:>{last}}"),
            *([Part(f"  {node.note}", "yellow")] if node.note and size.lines is None else []),
        ]


def _cells(cards: Sequence[str], room: int) -> list[Part]:
    """Return the cards with all slices if there is room, else a character for each."""
    whole = [card if len(card) == 1 else f"[{card}]" for card in cards]
    text = "".join(whole)
    if len(text) > room:
        text = "".join(map(compact, cards))
    parts: list[Part] = []
    for glyph in shorten(text, max(room, 1)):
        colour = _COLOURS.get(glyph, "")
        if parts and parts[-1].colour == colour:
            parts[-1] = Part(parts[-1].text + glyph, colour)
        else:
            parts.append(Part(glyph, colour))
    return parts


def _group_lines(groups: Sequence[GroupRow], mark: str, size: Size) -> Iterator[list[Part]]:
    count = max((len(str(group.pods)) for group in groups), default=0)
    age = max((len(group.age) for group in groups), default=0)
    namespaces = min(max((len(group.namespaces) for group in groups), default=0), _KINDS)
    for group in groups:
        here = group.id == mark
        yield [
            Part("> " if here else "  "),
            Part(f"{group.pods:>{count}}  {group.age:>{age}}  ", "bold" if here else ""),
            Part(f"{shorten(group.namespaces, namespaces):<{namespaces}}  "),
            Part(group.summary, "bold" if here else ""),
        ]


def _opened(shown: Overview, position: Position, size: Size, reason: Sequence[str]) -> list[list[Part]]:
    if position.pane == "pending":
        lines = [[Part(line, "red" if number == 0 else "")] for number, line in enumerate(reason)]
    else:
        nodes = nodes_shown(shown, position)
        at = selected([node.name for node in nodes], position.node)
        lines = list(_devices(nodes[at], size)) if nodes else []
    last = max(len(lines) - 1, 0)
    return [[], *lines[min(position.scroll, last) :]]


def _devices(node: NodeRow, size: Size) -> Iterator[list[Part]]:
    yield [Part(f"{node.name}: {node.free} of {node.total} devices free", "bold")]
    for line in folded(node.note, size.columns) if node.note else ():
        yield [Part(line, "yellow")]
    name = max((len(device[0]) for device in node.devices), default=0)
    state = max((len(device[2]) for device in node.devices), default=0)
    for device, kind, now, held in node.devices:
        yield [
            Part(f"  {device:<{name}}  "),
            Part(f"{now:<{state}}  ", _COLOURS.get(GLYPHS.get(now, ""), "")),
            Part(f"{held or kind}"),
        ]
