"""The pages look as they were reviewed: pictures at the widths of a desk and of a phone, compared with a tolerance.

``ALLOTMENT_UPDATE_PICTURES=1`` takes them again; look at each that changed before you commit it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from PIL import Image

from tests.web.browser.chromium import Browser, Theme
from tests.web.browser.served import ServedCluster, page_over
from tests.web.browser.worlds import team_cluster

FOLDER: Final = Path(__file__).parent / "pictures"
UPDATE: Final = bool(os.environ.get("ALLOTMENT_UPDATE_PICTURES"))
PAGES: Final = {
    "map": "/map?device=dgx%2Fgpu-0-mig-3g20gb-9-0",
    "pending": "/pending",
    "editor": "/ask?on=fleet&fleet=dgx-a100-40gb",
    "objects": "/objects?q=kind:claim",
    "object": "/objects/claim/team-a/trainer-0-gpu",
    "what-if": "/what-if?change=remove:h100",
    "money": "/money",
}
LOOKS: Final[tuple[tuple[int, Theme], ...]] = ((1280, "light"), (390, "dark"))
#: Squares of this many pixels are compared, since systems smooth letters differently. One differs if a colour does by
#: more than the level (of 255); the share of such squares is accepted: the few signs that the page's own font lacks, as
#: the arrow, are drawn with a font of the system.
SQUARE, LEVEL, SHARE = 8, 32, 0.006
#: Ages must not depend on when the test runs, and letters not on the fonts that are installed.
_FIXED: Final = """
Date.now = () => Date.parse("2026-11-03T08:00:00Z");
const sheet = new CSSStyleSheet();
sheet.replaceSync(":root { --sans: Inter; --mono: Inter; text-rendering: geometricPrecision; }");
document.adoptedStyleSheets.push(sheet);
"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[ServedCluster]:
    with page_over(team_cluster()) as served:
        browser.before_each_page(_FIXED)
        browser.show(served.address)
        yield served


@pytest.mark.parametrize(("width", "theme"), LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_page_looks_as_reviewed(
    browser: Browser, page: ServedCluster, name: str, width: int, theme: Theme, tmp_path: Path
) -> None:
    browser.show(page.at(PAGES[name]), width=width, theme=theme)
    if name == "editor":
        browser.sees("fits on", ".answer")
    browser.driver.execute_script("document.activeElement.blur()")
    browser.driver.execute_async_script("document.fonts.ready.then(arguments[0])")
    taken = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
    path = FOLDER / f"{name}-{width}-{theme}.png"
    if UPDATE:
        FOLDER.mkdir(exist_ok=True)
        taken.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)
        return
    reviewed = Image.open(path).convert("RGB")
    assert taken.size == reviewed.size
    found, expected = (np.asarray(picture.reduce(SQUARE), np.int16) for picture in (taken, reviewed))
    levels = np.abs(found - expected).max(axis=2)
    share = float((levels > LEVEL).mean())
    if share > SHARE:
        taken.save(tmp_path / path.name)
    assert share <= SHARE, f"compare {tmp_path / path.name} with {path}"
