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
from selenium.webdriver import Chrome, Keys
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

    def show(self, address: str, *, width: int = 1280, theme: Theme = "light") -> None:
        """Open an address. ``clicks`` counts from here."""
        metrics = {"width": width, "height": SIZES[width], "deviceScaleFactor": 1, "mobile": width < 700}
        self._command("Emulation.setDeviceMetricsOverride", metrics)
        self._command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        self.driver.get(address)
        self.settle()
        self.clicks = 0

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
        """Return the name of what has the focus."""
        script = "const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent || e.tagName;"
        return str(self.driver.execute_script(script)).strip()

    def tab_to(self, word: str, limit: int = 80) -> None:
        """Press the tabulator key until something with a name has the focus."""
        for _ in range(limit):
            self.press(Keys.TAB)
            if word in self.focused():
                return
        raise AssertionError(f"{word!r} is not reached by the tabulator key")

    def findings(self) -> list[str]:
        """Return what axe-core finds on the page."""
        if not AXE.is_file():
            pytest.skip("axe-core is missing: npm ci --ignore-scripts in frontend installs it")
        self.driver.execute_script(AXE.read_text("utf-8"))
        found: list[str] = self.driver.execute_async_script(_AXE)
        return found

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        script = "const e = document.documentElement; return e.scrollWidth - e.clientWidth;"
        return int(self.driver.execute_script(script))

    def errors(self) -> list[str]:
        """Return the errors in the console since the last call, such as violations of the content security policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]  # type: ignore[no-untyped-call]

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
        "--force-device-scale-factor=1", "--lang=en", "--disable-background-networking", "--no-first-run",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(driver_path))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
