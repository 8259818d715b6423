"""The browser is opened only where the user sees it."""

from __future__ import annotations

import sys
import webbrowser

import pytest

from allotment.cli.output.browser import has_desktop, open_browser

ADDRESS = "http://127.0.0.1:8780/?token=x"


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
        ({"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22", "DISPLAY": "localhost:10"}, "linux", False),
        ({"SSH_TTY": "/dev/pts/0"}, "darwin", False),
    ],
)
def test_a_desktop(environment: dict[str, str], platform: str, expected: bool) -> None:
    assert has_desktop(environment, platform) is expected


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal on a desktop; the addresses that its browser opens."""
    opened: list[str] = []

    class Browser(webbrowser.BaseBrowser):
        def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
            opened.append(url)
            return True

    for name in ("SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(webbrowser, "get", lambda using=None: Browser())
    return opened


def test_a_terminal_on_a_desktop_opens_the_page(desktop: list[str]) -> None:
    assert open_browser(ADDRESS)
    assert desktop == [ADDRESS]


def test_a_pipe_opens_nothing(desktop: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert not open_browser(ADDRESS)
    assert desktop == []


def test_a_browser_in_the_terminal_is_not_started(desktop: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "get", lambda using=None: webbrowser.GenericBrowser("w3m"))
    assert not open_browser(ADDRESS)


def test_without_a_browser_nothing_is_opened(desktop: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(using: str | None = None) -> webbrowser.BaseBrowser:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert not open_browser(ADDRESS)
