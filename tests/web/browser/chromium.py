"""Chromium as tests use it: opens pages, clicks what a reader sees, and reports what axe-core finds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

ROOT: Final = Path(__file__).parents[3]
AXE: Final = ROOT / "frontend/node_modules/axe-core/axe.min.js"
#: Widths of a desk and of a phone, in pixels, with their heights.
SIZES: Final = {1280: 900, 390: 844}
#: Seconds after which something that must appear is missing. Machines under load are slow.
TIMEOUT: Final = 30
Theme = Literal["light", "dark"]

#: Elements that a reader can activate, by what they are called.
_NAMED: Final = """
const [word, root] = arguments;
const text = (element) => element.getAttribute("aria-label") || element.textContent || "";
const name = (element) => text(element).trim().replace(/\\s+/g, " ");
return [...root.querySelectorAll("a[href], button, summary, label, [role=button]")]
  .filter((element) => element.checkVisibility() && name(element).includes(word))[0] || null;
"""
_READY: Final = """
return document.readyState === "complete" && document.querySelector("h1, [role=alert]") !== null
  && document.querySelector(".waiting, .starting, [aria-busy=true]") === null;
"""
#: The element with the focus, also inside the editor, its name, and whether the focus can be seen on it.
_FOCUS: Final = """
const focused = (root = document) => root.activeElement?.shadowRoot?.activeElement
  ? focused(root.activeElement.shadowRoot) : root.activeElement;
const nameOf = (element) => (element.getAttribute("aria-label") || element.labels?.[0]?.textContent
  || element.textContent || element.tagName).trim().replace(/\\s+/g, " ");
const stopOf = (element) => {
  if (!element || element === document.body) return ["", true];
  const marked = [element, element.closest(".cm-editor"), element.matches("input") && element.nextElementSibling,
    element.querySelector(":scope > .edge")].filter(Boolean);
  const isMarked = marked.some((one) => {
    const style = getComputedStyle(one);
    return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2)
      || (one.matches(".edge") && parseFloat(style.strokeWidth) >= 3);
  });
  const box = element.getBoundingClientRect();
  const isInside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return [nameOf(element), isMarked && isInside && element.checkVisibility()];
};
const controls = "a[href], button:not(:disabled), input, select, textarea, summary";
const reachable = () => [...document.querySelectorAll(controls)]
  .filter((one) => one.checkVisibility() && one.tabIndex >= 0 && (one.type !== "radio" || one.checked));
"""
_AXE: Final = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(
  ({ violations }) => done(violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))),
  (error) => done([String(error)]),
);
"""


class Browser:
    """A tab. Each method that finds something waits until it exists, and fails if it does not appear."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self.clicks = 0

    def show(self, address: str, *, width: int = 1280, theme: Theme = "light", forced_colours: bool = False) -> None:
        """Open an address. ``clicks`` counts from here. ``forced_colours``: as a system with high contrast has."""
        metrics = {"width": width, "height": SIZES[width], "deviceScaleFactor": 1, "mobile": width < 700}
        self._command("Emulation.setDeviceMetricsOverride", metrics)
        self.colour(theme, forced_colours=forced_colours)
        self.driver.get(address)
        self.settle()
        self.clicks = 0

    def colour(self, theme: Theme, *, forced_colours: bool = False) -> None:
        """Change the colours of the system, also while a page is open, without transitions."""
        features = {
            "prefers-color-scheme": theme, "forced-colors": "active" if forced_colours else "none",
            "prefers-reduced-motion": "reduce",
        }  # fmt: skip
        media = [{"name": name, "value": value} for name, value in features.items()]
        self._command("Emulation.setEmulatedMedia", {"features": media})

    def before_each_page(self, script: str) -> None:
        """Run a script before those of each page that is opened later."""
        self._command("Page.addScriptToEvaluateOnNewDocument", {"source": script})

    def settle(self) -> None:
        """Wait until the page shows an answer."""
        self._until(lambda: bool(self.driver.execute_script(_READY)), "an answer")

    def click(self, word: str, within: str = "main") -> None:
        """Click the first link, button or label in which a word can be read."""
        self._until(lambda: self._clicked(word, within), f"{word!r} to click")
        self.clicks += 1
        self.settle()

    def _clicked(self, word: str, within: str) -> bool:
        roots = self.driver.find_elements(By.CSS_SELECTOR, within)
        found = self.driver.execute_script(_NAMED, word, roots[0]) if roots else None
        if found is None:
            return False
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()
        return True

    def text(self, selector: str = "body") -> str:
        """Return what can be read in the first element of a CSS selector."""
        return self.one(selector).text

    def texts(self, selector: str) -> list[str]:
        """Return what can be read in all elements of a CSS selector."""
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def count(self, selector: str) -> int:
        """Return how many elements a CSS selector has."""
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> WebElement:
        """Return the first element of a CSS selector."""
        found: list[WebElement] = []

        def find() -> bool:
            found[:] = self.driver.find_elements(By.CSS_SELECTOR, selector)
            return bool(found)

        self._until(find, selector)
        return found[0]

    def sees(self, text: str, selector: str = "body") -> None:
        """Wait until a text can be read."""
        self._until(lambda: any(text in found for found in self.texts(selector)), f"{text!r} in {selector}")

    def sees_no(self, text: str, selector: str = "body") -> None:
        """Wait until a text can no longer be read."""
        self._until(lambda: not any(text in found for found in self.texts(selector)), f"no {text!r} in {selector}")

    def keys(self, *keys: str) -> None:
        """Press keys as a keyboard does, wherever the focus is. One with Control is written ``Keys.CONTROL + "a"``."""
        for key in keys:
            actions = ActionChains(self.driver)
            if key.startswith(Keys.CONTROL):
                actions.key_down(Keys.CONTROL).send_keys(key[1:]).key_up(Keys.CONTROL)
            else:
                actions.send_keys(key)
            actions.perform()

    def insert(self, text: str) -> None:
        """Insert a text where the focus is, as from the clipboard."""
        self._command("Input.insertText", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys, where the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def type(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        field = self.one(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def focused(self) -> str:
        """Return the name of what has the focus, or "" if nothing has it."""
        return str(self._focus()[0])

    def sees_the_focus(self) -> None:
        """Wait until what has the focus is visible, and marked as such."""
        self._until(lambda: bool(self._focus()[1]), f"that the focus on {self.focused()!r} can be seen")

    def _focus(self) -> Sequence[Any]:
        found: Sequence[Any] = self.driver.execute_script(_FOCUS + "return stopOf(focused());")
        return found

    def focusable(self) -> list[str]:
        """Return the names of what a reader must be able to reach with the keyboard."""
        found: list[str] = self.driver.execute_script(_FOCUS + "return reachable().map((one) => stopOf(one)[0]);")
        return found

    def tab_to(self, word: str, limit: int = 80) -> None:
        """Press the tabulator key until something with a name has the focus."""
        stops = []
        for _ in range(limit):
            self.keys(Keys.TAB)
            stops.append(self.focused())
            if word in stops[-1]:
                return
        raise AssertionError(f"{word!r} is not reached by the tabulator key, which stops at {stops}")

    def findings(self) -> list[str]:
        """Return what axe-core finds on the page."""
        if not AXE.is_file():
            pytest.skip("axe-core is missing: npm ci --ignore-scripts in frontend installs it")
        if not self.driver.execute_script("return 'axe' in window"):  # half a megabyte
            self.driver.execute_script(AXE.read_text("utf-8"))
        found: list[str] = self.driver.execute_async_script(_AXE)
        return found

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        script = "const e = document.documentElement; return e.scrollWidth - e.clientWidth;"
        return int(self.driver.execute_script(script))

    def errors(self) -> list[str]:
        """Return the errors in the console since the last call, such as violations of the content security policy.

        The page shown before may have noticed that its server ended: that is no error of this one.
        """
        found = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
        own = "/".join(self.driver.current_url.split("/")[:3])
        return [text for text in found if text.startswith(f"{own}/") or not text.startswith("http://127.0.0.1:")]

    def screenshot(self) -> bytes:
        """Return what the window shows, as PNG."""
        return self.driver.get_screenshot_as_png()

    def _command(self, name: str, parameters: dict[str, Any]) -> None:
        self.driver.execute_cdp_cmd(name, parameters)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        ignored = [StaleElementReferenceException, ElementClickInterceptedException]
        waiting = WebDriverWait(self.driver, TIMEOUT, poll_frequency=0.05, ignored_exceptions=ignored)
        try:
            waiting.until(lambda _: condition())
        except TimeoutException:
            shown = self.driver.find_element(By.TAG_NAME, "body").text
            raise AssertionError(f"expected {what} on {self.driver.current_url}, which shows:\n{shown}") from None


def programs() -> Sequence[str]:
    """Return the paths of Chromium and of its driver; skip the test if one is missing."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("NOT TESTED in a browser: chromium and chromedriver are missing (Debian: chromium-driver)")
    return chromium, driver


@contextmanager
def chromium() -> Iterator[Browser]:
    """Return Chromium with one tab, which ends with the context."""
    binary, driver_path = programs()
    options = Options()
    options.binary_location = binary
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--force-device-scale-factor=1", "--font-render-hinting=none", "--disable-lcd-text", "--lang=en",
        "--disable-background-networking", "--no-first-run",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(driver_path))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
