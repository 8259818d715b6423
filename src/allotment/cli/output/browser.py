"""Opens a page in the browser of the desktop, if this process has one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def has_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser that is opened here is seen by who started this program.

    >>> has_desktop({"DISPLAY": ":0"}, "linux"), has_desktop({}, "linux"), has_desktop({}, "darwin")
    (True, False, True)
    >>> has_desktop({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.1 …"}, "linux")
    False
    """
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return False
    if platform in ("darwin", "win32"):
        return True
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> bool:
    """Open an address, and return whether it was tried: only from a terminal on a desktop.

    Browsers in the terminal (``w3m``) are left out: they would take it over.
    """
    if not (sys.stdout.isatty() and has_desktop(os.environ, sys.platform)):
        return False
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if isinstance(browser, webbrowser.GenericBrowser) and not isinstance(browser, webbrowser.BackgroundBrowser):
        return False
    return browser.open(address)
