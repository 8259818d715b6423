"""The page below a path, as a proxy shows it: every link, request and entry of the history begins with the path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.browser.chromium import Browser
from tests.web.browser.served import ServedCluster, page_over
from tests.web.browser.worlds import team_cluster

BASE = "/tools/allotment"


@pytest.fixture
def page(browser: Browser) -> Iterator[ServedCluster]:
    with page_over(team_cluster(), BASE) as served:
        browser.show(served.address)
        yield served


def path_of(browser: Browser) -> str:
    return str(browser.driver.execute_script("return location.pathname"))


def test_links_requests_and_the_history_stay_below_the_path(browser: Browser, page: ServedCluster) -> None:
    browser.sees("cards have room")
    browser.click("Pending", within="body")
    browser.sees("every matching device is in use")
    assert path_of(browser) == f"{BASE}/pending"
    browser.click("every matching device is in use")
    browser.sees("Try it")
    assert path_of(browser).startswith(f"{BASE}/pending/")
    browser.driver.refresh()
    browser.sees("Try it")
    browser.driver.back()
    browser.sees("every matching device is in use")
    script = "return [...document.querySelectorAll('a[href^=\"/\"]')].map(link => link.getAttribute('href'))"
    links = browser.driver.execute_script(script)
    assert links
    assert [link for link in links if not link.startswith(f"{BASE}/")] == []
    assert browser.errors() == []


def test_an_edited_manifest_is_answered_and_kept_in_the_address(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/ask?on=fleet&fleet=dgx-a100-40gb"))
    browser.sees("fits on")
    assert path_of(browser) == f"{BASE}/ask"
    assert browser.errors() == []
