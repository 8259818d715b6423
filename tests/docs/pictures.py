"""The pictures of the page in the documentation: ``python -m tests.docs.pictures [NAME …]`` takes them with Chromium.

Each is taken in a light and in a dark form, which GitHub and the site choose by the reader's theme.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, get_args

from PIL import Image

from allotment.watched.cluster import WatchedCluster
from tests.docs.picture_world import NOW, picture_history, picture_world
from tests.docs.screens import DOCS
from tests.web.browser.chromium import Browser, Theme, chromium
from tests.web.browser.served import ServedCluster, page_over

FOLDER: Final = DOCS / "pictures"
THEMES: Final[tuple[Theme, ...]] = get_args(Theme)
#: The largest picture in bytes: a page of the documentation has several.
MOST_BYTES: Final = 120_000
_CLOCK: Final = f"Date.now = () => Date.parse('{NOW}');"


class Picture(NamedTuple):
    """``path``: the screen. ``text``: what is drawn last. ``click``: what to click first. ``height``: in pixels."""

    path: str
    text: str
    height: int = 900
    click: str = ""


PICTURES: Final = {
    "map": Picture("/map", "pods pending", 860),
    "workload": Picture("/map?device=h100-2%2Fgpu-0", "pods pending"),
    "pending": Picture("/pending", "What would help", 860, click="Try it"),
    "ask": Picture("/ask", "fits on", 760),
    "objects": Picture("/objects/node/h100-2", "h100-2", 700),
    "what-if": Picture("/what-if?change=drain:h100-1&change=drain:h100-2", "lose", 860),
    "money": Picture("/money", "By namespace", 640),
    "history": Picture("/history?at=9", "As it was at", 760),
}


def take(browser: Browser, address: str, picture: Picture, theme: Theme) -> bytes:
    """Return a picture as WebP."""
    browser.show(address, theme=theme)
    browser.sees(picture.text)
    if picture.click:
        browser.click(picture.click)
        browser.one(".trial")
        browser.driver.execute_script("window.scrollTo(0, 0)")
    browser.driver.execute_script("document.activeElement.blur()")
    taken = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
    file = io.BytesIO()
    cropped = taken.crop((0, 0, taken.width, picture.height))
    cropped.save(file, "WEBP", lossless=True, quality=100, method=6)
    return file.getvalue()


def write(names: Sequence[str] = ()) -> None:
    """Take the pictures with these names, or all."""
    FOLDER.mkdir(exist_ok=True)
    with chromium() as browser:
        browser.before_each_page(_CLOCK)
        with page_over(WatchedCluster(picture_world())) as served:
            browser.show(served.address)
            _write(browser, served, [name for name in names or PICTURES if name != "history"])
        if "history" in (names or PICTURES):
            with _lab(browser) as served:
                _write(browser, served, ["history"])


def _write(browser: Browser, served: ServedCluster, names: Sequence[str]) -> None:
    for name in names:
        picture = PICTURES[name]
        for theme in THEMES:
            (FOLDER / f"{name}-{theme}.webp").write_bytes(take(browser, served.at(picture.path), picture, theme))


@contextmanager
def _lab(browser: Browser) -> Iterator[ServedCluster]:
    """The page of a lab with a history."""
    first, *others = picture_history()
    with page_over(WatchedCluster(first)) as served:
        browser.show(served.address)
        browser.show(served.at("/history"))
        for number, view in enumerate(others, 2):
            served.publish(view)
            browser.one(f".revisions li:nth-child({number})")  # it is kept now
        yield served


if __name__ == "__main__":
    write(sys.argv[1:])
