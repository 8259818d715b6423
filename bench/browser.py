"""Measurements that need a browser: ``python -m bench.browser [paint|events|heap|pending …]``.

Chromium opens the page of clusters in memory. Measured are the first paint and the transferred bytes, the time from a
change in the cluster until it is on the screen, the heap of a page over thousands of changes, and how soon a page with
5,000 pending pods answers to clicks. Everything runs on one machine: the server, the browser and this program.
"""

from __future__ import annotations

import bisect
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import Empty
from typing import Any, Final, NamedTuple

from bench.changing_cluster import TOKEN, ServedCluster, busy_fleet, served
from bench.screens import pods_on_nodes
from tests.web.browser.chromium import Browser, chromium

#: Loads of a page with an empty cache, of which the median counts.
_LOADS: Final = 5
_EVENTS: Final = 100
_EVENTS_PER_SECOND: Final = 2
_CHANGES_PER_SECOND: Final = 100
#: Changes after which the heap is measured.
_EARLY, _LATE = 1_000, 10_000
_HEAP_SAMPLES: Final = 8
#: Seconds after which a page that must show something is given up.
_TIMEOUT: Final = 120

#: Records in each page when something is drawn, in milliseconds from the start of the navigation (``seen``), when the
#: count of devices in use changes on the screen, in milliseconds since 1970 (``counts``), and tasks above 50 ms.
_WATCH: Final = """
window.seen = {}; window.counts = []; window.tasks = [];
const marks = {
  map: ".piece, .canvas-frame canvas", strip: ".strip:not([aria-busy])", groups: ".groups", detail: ".detail .remedies",
};
let last = "";
const look = () => {
  const strip = document.querySelector(".strip");
  for (const [name, selector] of Object.entries(marks)) {
    if (name in seen || !document.querySelector(selector)) continue;
    if (name === "strip" && !/[0-9] pods? pending/.test(strip.textContent)) continue;
    seen[name] = 0;
    requestAnimationFrame(() => setTimeout(() => { seen[name] = performance.now(); }));
  }
  const row = [...document.querySelectorAll(".totals .legend button")].find((e) => /^in use/.test(e.textContent));
  const count = row ? row.textContent : "none";
  if (count !== last) {
    last = count;
    requestAnimationFrame(() => setTimeout(() => counts.push(performance.timeOrigin + performance.now())));
  }
};
new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) tasks.push([task.startTime, task.duration]);
}).observe({ type: "longtask", buffered: true });
"""
_LOAD: Final = """
const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
return {
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  bytes: entries.reduce((sum, entry) => sum + entry.transferSize, 0),
  ...seen,
};
"""


class _Budget(NamedTuple):
    """``figure``: what was measured, with its unit in ``form``."""

    what: str
    figure: float
    limit: float
    form: str

    def line(self) -> str:
        state = "met   " if self.figure <= self.limit else "MISSED"
        return f"{state}  {self.what}: {self.form.format(self.figure)} (at most {self.form.format(self.limit)})"


def _seconds(what: str, figure: float, limit: float) -> _Budget:
    return _Budget(what, figure / 1000, limit, "{:.2f} s")


def _open(browser: Browser, page: ServedCluster, path: str, *marks: str) -> dict[str, float]:
    """Open a screen with an empty cache; return when the marks were drawn."""
    browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    browser.driver.get(page.url + path)
    end = time.monotonic() + _TIMEOUT
    while True:
        found: dict[str, float] = browser.driver.execute_script(_LOAD)
        if all(found.get(mark) for mark in (*marks, "paint")):
            return found
        if time.monotonic() > end:
            raise RuntimeError(f"{path} does not show {', '.join(marks)}: {found}\n{browser.text()[:2000]}")
        time.sleep(0.02)


def _sign_in(browser: Browser, page: ServedCluster) -> None:
    """Sign in with a screen that needs neither the map nor the pending pods."""
    browser.driver.get(f"{page.url}/objects?token={TOKEN}")
    browser.settle()


def _median(loads: list[dict[str, float]], name: str) -> float:
    return sorted(load[name] for load in loads)[len(loads) // 2]


def paint(browser: Browser) -> Iterator[str]:
    """The first paint, the drawn map and the transferred bytes of the first page."""
    cases = (
        ("500 nodes x 8", ("dgx-a100-40gb:500",), 0.5, 250.0),
        ("5,000 nodes x 8, 1,000 of them MIG", (
            "dgx-a100-40gb:4000", "dgx-a100-40gb:1000/static-mig=3g.20gb+2g.10gb+1g.5gb:2"), 2.0, 0.0),
        ("600 nodes x 8 with all MIG devices that are possible", ("dgx-a100-40gb:600/dynamic-mig",), 2.0, 0.0),
    )  # fmt: skip
    for name, machines, most_seconds, most_bytes in cases:
        with served(partial(busy_fleet, *machines), 0) as page:
            _sign_in(browser, page)
            loads = [_open(browser, page, "/", "map") for _ in range(_LOADS)]
        yield _seconds(f"{name}: first contentful paint", _median(loads, "paint"), most_seconds).line()
        yield f"        {name}: map drawn: {_median(loads, 'map') / 1000:.2f} s"
        transferred = _median(loads, "bytes") / 1000
        if most_bytes:
            yield _Budget(f"{name}: transferred", transferred, most_bytes, "{:.0f} kB").line()
        else:
            yield f"        {name}: transferred: {transferred:.0f} kB"


def events(browser: Browser) -> Iterator[str]:
    """The time from a change in the cluster until the screen shows it."""
    for nodes in (500, 5000):
        with served(partial(busy_fleet, f"dgx-a100-40gb:{nodes}"), _EVENTS_PER_SECOND) as page:
            _sign_in(browser, page)
            _open(browser, page, "/", "map")
            time.sleep(2)
            _drained(page)
            browser.driver.execute_script("counts.length = 0")
            time.sleep(_EVENTS / _EVENTS_PER_SECOND)
            shown: list[float] = browser.driver.execute_script("return counts")
            happened = [moment * 1000 for moment in _drained(page)]
        waits = sorted(_waits(happened, shown))
        for share, limit in ((0.5, None), (0.95, 0.2)):
            figure = waits[int(len(waits) * share)]
            what = f"{nodes:,} nodes x 8: event on the screen, {'p95' if limit else 'median'} of {len(waits)}"
            yield (
                _Budget(what, figure, limit * 1000, "{:.0f} ms").line() if limit else f"        {what}: {figure:.0f} ms"
            )


def _drained(page: ServedCluster) -> list[float]:
    found = []
    while True:
        try:
            found.append(page.times.get_nowait())
        except Empty:
            return found


def _waits(happened: list[float], shown: list[float]) -> Iterator[float]:
    """The milliseconds from each change to the next one on the screen; changes at the end are still on their way."""
    for moment in happened:
        at = bisect.bisect(shown, moment)
        if at < len(shown):
            yield shown[at] - moment


def heap(browser: Browser) -> Iterator[str]:
    """The heap of a page after 1,000 changes, and after 10,000.

    The cluster is so small that the first changes reach all its nodes: what grows after them is a leak.
    """
    with served(partial(busy_fleet, "dgx-a100-40gb:100"), _CHANGES_PER_SECOND) as page:
        _sign_in(browser, page)
        _open(browser, page, "/", "map")
        begin, sizes = time.monotonic(), []
        for changes in (_EARLY, _LATE):
            time.sleep(max(0.0, begin + changes / _CHANGES_PER_SECOND - time.monotonic()))
            sizes.append(_heap(browser))
        updates = browser.driver.execute_script(
            "return performance.getEntriesByType('resource').filter((e) => e.name.includes('/map')).length"
        )
    what = f"heap after {_LATE:,} changes, of that after {_EARLY:,} ({sizes[0]:.1f} MB, {updates} readings)"
    yield _Budget(what, sizes[1] / sizes[0] * 100, 120, "{:.0f} %").line()


def _heap(browser: Browser) -> float:
    """The heap of the page in MB, without what is no longer used, nor an answer that is being read."""
    command, sizes = browser.driver.execute_cdp_cmd, []
    command("Performance.enable", {})
    for _ in range(_HEAP_SAMPLES):
        command("HeapProfiler.collectGarbage", {})
        metrics: list[dict[str, Any]] = command("Performance.getMetrics", {})["metrics"]
        sizes.append(float(next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize")))
        time.sleep(0.1)
    return min(sizes) / 1e6


def pending(browser: Browser) -> Iterator[str]:
    """The time until a page with 10,000 pods, 5,000 of them pending, shows map and causes, and answers to clicks."""
    with served(partial(pods_on_nodes, 1000), 0) as page:
        _sign_in(browser, page)
        first = _open(browser, page, "/", "map", "strip")
        loads = [_open(browser, page, "/", "map", "strip") for _ in range(_LOADS)]
        busy = _busy(browser)
        causes = [_open(browser, page, "/pending", "groups", "detail") for _ in range(_LOADS)]
        click = _click(browser)
    name = "10,000 pods, 5,000 pending"
    yield f"        {name}: first page of a new revision: causes after {first['strip'] / 1000:.2f} s"
    yield _seconds(f"{name}: map drawn", _median(loads, "map"), 2).line()
    yield _seconds(f"{name}: causes on the map drawn", _median(loads, "strip"), 2).line()
    yield f"        {name}: longest task of the page while it loads: {busy:.0f} ms"
    yield _seconds(f"{name}: page of causes drawn", _median(causes, "detail"), 2).line()
    yield _Budget(f"{name}: from a click on a cause to its answer", click, 1000, "{:.0f} ms").line()


def _busy(browser: Browser) -> float:
    tasks: list[tuple[float, float]] = browser.driver.execute_script("return tasks")
    return max((length for _, length in tasks), default=0)


_CLICK: Final = """
const done = arguments[arguments.length - 1];
const title = () => document.querySelector(".detail h2")?.textContent ?? "";
const links = document.querySelectorAll(".groups a");
const before = title(), begin = performance.now();
links[links.length - 1].click();
const look = () => (title() && title() !== before ? done(performance.now() - begin) : requestAnimationFrame(look));
look();
"""


def _click(browser: Browser) -> float:
    browser.driver.set_script_timeout(_TIMEOUT)
    return float(browser.driver.execute_async_script(_CLICK))


PARTS: Final[dict[str, Callable[[Browser], Iterable[str]]]] = {
    "paint": paint, "events": events, "heap": heap, "pending": pending,
}  # fmt: skip


def main(words: list[str]) -> int:
    """Print the lines of some parts, or of all."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("SKIPPED: chromium and chromedriver are missing (Debian: chromium-driver)")
        return 0
    for word in words or PARTS:
        with chromium() as browser:
            browser.before_each_page(_WATCH)
            for line in PARTS[word](browser):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
