"""The cost of a watched cluster and of open pages: ``python -m bench.pages [NODES …]``.

For each size, a server holds a cluster of nodes with eight GPUs in memory, in which claims get and lose devices.
Measured are the time until the first view, the time from a new revision until pages have the changed part of the map,
the transferred bytes, and the processor time and memory of a server with 50 pages that follow the changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp

from bench.changing_cluster import TOKEN, busy_fleet, resident, served

_SIZES: Final = (1000, 5000)
_PAGES: Final = 50
_CHANGES_PER_SECOND: Final = 100
_SECONDS: Final = 20


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Page:
    """A page that follows the revisions, with one request at a time, as the real one."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self.first = self.transferred = self.updates = 0
        self.seconds: list[float] = []

    async def run(self) -> None:
        self.first, since = await self._map(0)
        async with self._session.get(f"{self._url}/events") as stream:
            async for line in stream.content:
                if not line.startswith(b"data: ") or json.loads(line[6:])["revision"] <= since:
                    continue
                begin = time.perf_counter()
                size, since = await self._map(since)
                self.seconds.append(time.perf_counter() - begin)
                self.updates, self.transferred = self.updates + 1, self.transferred + size

    async def _map(self, since: int) -> tuple[int, int]:
        """Return the transferred bytes and the revision of the map."""
        async with self._session.get(f"{self._url}/map?since={since}") as response:
            size = int(response.headers["Content-Length"])
            return size, int((await response.json())["cluster"]["revision"])


async def _open_pages(url: str, process: int) -> Iterator[str]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector, read_bufsize=2**20) as session:
        pages = [_Page(session, url) for _ in range(_PAGES)]
        tasks = [asyncio.create_task(page.run()) for page in pages]
        while not all(page.updates for page in pages):
            await asyncio.sleep(0.1)
        used, begin = _processor_seconds(process), time.perf_counter()
        for page in pages:
            page.seconds.clear()
        await asyncio.sleep(_SECONDS)
        share = (_processor_seconds(process) - used) / (time.perf_counter() - begin)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    times = sorted(second for page in pages for second in page.seconds)
    updates = sum(page.updates for page in pages)
    return iter((
        f"map, first: {pages[0].first:,} bytes (gzip)   later: {sum(p.transferred for p in pages) // updates:,} bytes",
        f"new revision to changed part of the map: median {_ms(times, 0.5)}   p95 {_ms(times, 0.95)}",
        f"{_PAGES} pages, {_CHANGES_PER_SECOND} changes/s: {share:.2f} processors, {resident(process):.0f} MB",
    ))  # fmt: skip


def _ms(times: list[float], share: float) -> str:
    return f"{times[min(len(times) - 1, int(len(times) * share))] * 1000:.0f} ms"


def measure(nodes: int) -> Iterator[str]:
    """Yield lines about a cluster of a size."""
    with served(partial(busy_fleet, f"dgx-a100-40gb:{nodes}"), _CHANGES_PER_SECOND) as page:
        yield f"first view: {page.first_view:.2f} s   before it: {page.megabytes:.0f} MB"
        yield from asyncio.run(_open_pages(page.url, page.process))


def main(words: list[str]) -> int:
    """Print the lines for each size."""
    for nodes in map(int, words) if words else _SIZES:
        for line in measure(nodes):
            print(f"{nodes:,} nodes x 8: {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
