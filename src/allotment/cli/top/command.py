"""``allot top``: follows a cluster in the terminal, or prints it once."""

from __future__ import annotations

import asyncio
import signal
import time
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from allotment.cli.inputs.watched import watched_cluster
from allotment.cli.output.console import Screen, open_screen
from allotment.cli.top.frame import Size, frame, painted
from allotment.cli.top.position import Position, pressed, selected_group
from allotment.cli.top.rows import Overview, overview
from allotment.cli.top.terminal import Terminal, opened
from allotment.errors import InputError
from allotment.explanation import Explanation, lines
from allotment.screens.device_map import device_map
from allotment.screens.pending import pending, pending_detail

if TYPE_CHECKING:
    from allotment.watched.cluster import WatchedCluster
    from allotment.watched.view import ClusterView

#: For a cluster to answer, with --once.
_FIRST_SECONDS: Final = 30.0
#: The pause after reading a view, in relation to its duration: a large cluster that changes all the time must not
#: occupy a core.
_PAUSE: Final = 4.0
#: The width of --once into a file.
_COLUMNS: Final = 120


def run(arguments: Namespace) -> int:
    """Show the cluster until ``q`` or Ctrl-C; return 0."""
    screen = open_screen()
    watched = watched_cluster(arguments)
    if arguments.once:
        view = asyncio.run(_first(watched))
        size = Size(screen.width or _COLUMNS, None)
        for line in painted(frame(shown_in(view), Position(), size), screen, size.columns):
            screen.line(line)
        return 0
    with opened() as terminal, suppress(KeyboardInterrupt):
        asyncio.run(_Top(watched, terminal, screen).run())
    return 0


def shown_in(view: ClusterView) -> Overview:
    """Return the rows of a view; slow for a large cluster."""
    shown = device_map(view)
    try:
        return overview(shown, pending(view))
    except InputError as error:  # a kind that may not be read
        return overview(shown, None, str(error))


def reason_in(view: ClusterView, group: str, columns: int) -> list[str]:
    """Return what ``allot explain`` prints about a group of pending pods."""
    try:
        return lines(Explanation((pending_detail(view, group).answer,)), columns)
    except InputError as error:
        return [str(error)]


async def _first(watched: WatchedCluster) -> ClusterView:
    """Return the first view of a cluster that answers. Raises InputError."""
    following = asyncio.create_task(watched.run())
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            view = watched.view()
            while not view.connected and not view.error.startswith("the cluster cannot be read"):
                view = await watched.changed(view.revision)
    except TimeoutError:
        view = watched.view()
    finally:
        following.cancel()
        await asyncio.wait([following])
    if not view.connected:
        raise InputError(view.error)
    return view


class _Top:
    """The picture on the terminal, which follows the cluster and the keys."""

    def __init__(self, watched: WatchedCluster, terminal: Terminal, screen: Screen) -> None:
        self._watched = watched
        self._terminal = terminal
        self._screen = screen
        self._shown: Overview | None = None
        self._position = Position()
        self._reasons: dict[tuple[int, str, int], list[str]] = {}
        self._dirty = asyncio.Event()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Show it until the end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._ended.set)
        with self._terminal.events(self._on_key, self._on_resize):
            tasks = [asyncio.create_task(work) for work in (self._watched.run(), self._follow(), self._draw())]
            ended = asyncio.create_task(self._ended.wait())
            done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, ended):
                task.cancel()
            await asyncio.wait([*tasks, ended])
        for task in done:
            task.result()

    async def _follow(self) -> None:
        """Read the rows of each new view."""
        view = self._watched.view()
        while True:
            start = time.perf_counter()
            self._shown = await asyncio.to_thread(shown_in, view)
            self._reasons.clear()
            self._dirty.set()
            await asyncio.sleep(_PAUSE * (time.perf_counter() - start))
            view = await self._watched.changed(view.revision)

    async def _draw(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if self._shown is not None:
                size, position = self._terminal.size(), self._position
                reason = await self._reason(self._shown, position, size) if position.opened else ()
                picture = painted(frame(self._shown, position, size, reason), self._screen, size.columns)
                self._terminal.show(picture)

    async def _reason(self, shown: Overview, position: Position, size: Size) -> list[str]:
        group, view = selected_group(position, shown), self._watched.view()
        if position.pane != "pending" or group is None:
            return []
        key = view.revision, group.id, size.columns
        if key not in self._reasons:
            self._reasons[key] = await asyncio.to_thread(reason_in, view, group.id, size.columns)
        return self._reasons[key]

    def _on_key(self, key: str) -> None:
        if self._shown is None:
            moved = None if key == "q" else self._position
        else:
            moved = pressed(key, self._position, self._shown, (self._terminal.size().lines or 24) // 2)
        if moved is None:
            self._ended.set()
        else:
            self._position = moved
            self._dirty.set()

    def _on_resize(self) -> None:
        self._terminal.redraw()
        self._dirty.set()
