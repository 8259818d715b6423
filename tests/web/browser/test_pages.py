"""Every page in both themes and at the widths of a desk and of a phone: complete, accessible, nothing cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from allotment.watched.cluster import WatchedCluster, view_of
from tests.web.browser.chromium import SIZES, Browser, Theme
from tests.web.browser.served import ServedCluster, page_over
from tests.web.browser.worlds import MARKUP, pending_pod, team_cluster

#: The pages with a text that each shows.
PAGES: Final = {
    "/map": "cards have room",
    "/map?view=table": "NVIDIA A100-SXM4-40GB",
    "/map?size=tiny": "cards have room",
    "/map?device=dgx%2Fgpu-0-mig-3g20gb-9-0": "trainer-0",
    "/pending": "every matching device is in use",
    "/ask?on=fleet&fleet=dgx-a100-40gb": "fits on",
    "/ask?on=none": "Plan:",
    "/objects": "trainer-0-gpu",
    "/objects/pod/team-a/big-0": "Why it is pending",
    "/objects/device/dgx/gpu-0-mig-3g20gb-9-0": "productName",
    "/what-if": "Nothing is assumed yet",
    "/what-if?change=remove:h100": "solver",
    "/money?plan=true": "For what is pending",
    "/history": "only a lab has a history",
    "/objects/pod/team-a/missing": "no pod",
}
#: The colours of a system: its theme, and whether they are forced.
COLOURS: Final[tuple[tuple[Theme, bool], ...]] = (("light", False), ("dark", False), ("dark", True))


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[ServedCluster]:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        yield served


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("path", PAGES)
def test_page_is_complete_and_accessible(browser: Browser, page: ServedCluster, path: str, width: int) -> None:
    """In each theme, and with forced colours, which readers also change while a page is open."""
    browser.show(page.at(path), width=width)
    browser.sees(PAGES[path])
    for theme, forced_colours in COLOURS:
        browser.colour(theme, forced_colours=forced_colours)
        assert browser.findings() == [], (theme, forced_colours)
        assert browser.overflow() == 0
    assert [error for error in browser.errors() if "404 (Not Found)" not in error] == []


@pytest.mark.parametrize(
    ("path", "chosen", "other"),
    [
        ("/objects?q=kind:claim", ".kinds a[aria-current]", ".kinds a:not([aria-current])"),
        ("/pending", ".group-row[aria-current]", ".group-row:not([aria-current])"),
        ("/ask?on=fleet", ".segments input:checked + span", ".segments input:not(:checked) + span"),
        ("/map?q=ns:team-a", ".legend [aria-pressed=true]", ".legend [aria-pressed=false]"),
        ("/money", ".bar [aria-current]", ".bar nav a:not([aria-current])"),
    ],
)
def test_forced_colours_show_what_is_chosen(
    browser: Browser, page: ServedCluster, path: str, chosen: str, other: str
) -> None:
    browser.show(page.at(path), theme="dark", forced_colours=True)
    backgrounds = {name: browser.one(name).value_of_css_property("background-color") for name in (chosen, other)}
    assert backgrounds[chosen] != backgrounds[other]


def test_each_page_states_its_json_and_its_command(browser: Browser, page: ServedCluster) -> None:
    for path in ("/map", "/pending", "/ask", "/objects", "/what-if", "/money"):
        browser.show(page.at(path))
        assert "$" not in browser.text(".command code")
        assert browser.text(".command code").startswith("allot ")
        assert f"{path}?format=json" in (browser.one("a.json").get_attribute("href") or "")


def test_names_from_the_cluster_are_never_interpreted(browser: Browser) -> None:
    pod = pending_pod("team-a", "harmless", "big")
    pod["metadata"]["labels"] = {"note": MARKUP}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra", "labels": {"note": MARKUP}}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": MARKUP, "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": MARKUP}}]}}},
    }
    watched = WatchedCluster(replace(view_of(team_cluster()), name=MARKUP))
    with page_over(watched) as served:
        browser.show(served.address)
        browser.sees("<img src=x", ".where")
        for world in (team_cluster(pod, node), team_cluster(pod, template, pending_pod("team-a", "odd", MARKUP))):
            try:
                served.become(world)
            except ValueError:
                continue  # such a name is rejected before it gets to the page
            for path in ("/map", "/pending", "/objects", "/objects/pod/team-a/harmless", "/objects/node/extra"):
                browser.show(served.at(path))
                assert browser.count("img") == 0
                assert browser.driver.title != "1"


#: Whether the text of an element runs from left to right: its first character is before its last one.
_IS_FORWARD: Final = """
const walker = document.createTreeWalker(arguments[0], NodeFilter.SHOW_TEXT);
const texts = [];
while (walker.nextNode()) if (walker.currentNode.data.trim()) texts.push(walker.currentNode);
const place = (node, at) => {
  const range = document.createRange();
  range.setStart(node, at);
  range.setEnd(node, at + 1);
  return range.getBoundingClientRect();
};
const [first, last] = [texts[0], texts.at(-1)];
const start = place(first, first.data.search(/\\S/)), end = place(last, last.data.trimEnd().length - 1);
return start.top < end.top || start.left < end.left;
"""


def test_names_do_not_change_the_direction_of_the_text_around_them(browser: Browser) -> None:
    turned = "A100\u202eGPU"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "odd"}}
    device = {"name": "gpu-0", "attributes": {"productName": {"string": turned}}}
    pool = {"name": "odd", "generation": 1, "resourceSliceCount": 1}
    slice_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "odd"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "odd", "pool": pool, "devices": [device]},
    }
    watched = WatchedCluster(replace(view_of(team_cluster(node, slice_)), name=turned))
    with page_over(watched) as served:
        browser.show(served.address)
        browser.show(served.at("/map?q=node:odd"))
        browser.sees("A100", ".node-group h2")
        for own in (".node-group h2 .soft", ".where-place"):
            assert browser.driver.execute_script(_IS_FORWARD, browser.one(own)), own


def test_what_may_not_be_read_is_named(browser: Browser) -> None:
    view = view_of(team_cluster())
    unread = {"resourceslices": "you may not list resourceslices at the cluster scope"}
    with page_over(WatchedCluster(replace(view, unread=unread, place="cluster"))) as served:
        browser.show(served.address)
        browser.sees("You may not list resourceslices", ".banners")
        browser.click("You may not list", ".banners")
        browser.sees("at the cluster scope", ".banners")
        assert browser.findings() == []


def test_a_wrong_token_can_be_corrected(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.at("/map") + "?token=wrong")
        browser.sees("Token", ".login")
        assert browser.findings() == []
        browser.type(".login input", served.address.partition("token=")[2])
        browser.click("Sign in", ".login")
        browser.sees("cards have room")
