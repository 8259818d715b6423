"""What probes are answered: whether the process lives, and whether it can do its work.

The answers have Kubernetes' own form: ``ok``, or with ``?verbose`` a line for each check. They are given by a thread of
their own, so an event loop that stands still does not keep the probe waiting: it is found out by it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

#: Why it is not well; empty when it is.
Check = Callable[[], str]

_BEAT_SECONDS: Final = 1.0
#: A large list takes the loop a while, a defect takes it for ever.
MAX_BLOCKED_SECONDS: Final = 20.0


class Heartbeat:
    """The heartbeat of an event loop: ``check`` may be asked from any thread."""

    def __init__(self, still: float = MAX_BLOCKED_SECONDS) -> None:
        self._still = still
        self._beat = time.monotonic()

    async def run(self) -> None:
        """Beat for ever."""
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    def check(self) -> str:
        """Why the loop is not well."""
        silent = time.monotonic() - self._beat
        return f"the event loop has been blocked for {silent:.0f} s" if silent > self._still else ""


class Health:
    """The checks: ``live`` must hold or the process is started again, ``ready`` must hold, too, to be sent work."""

    def __init__(self) -> None:
        self.live: dict[str, Check] = {"ping": lambda: ""}
        self.ready: dict[str, Check] = {}

    def answer(self, path: str, query: str = "") -> tuple[int, str] | None:
        """Status code and text for a path such as ``/readyz`` or ``/livez/ping``; None: there is no such path."""
        name, _, one = path.strip("/").partition("/")
        if name not in ("livez", "readyz", "healthz"):
            return None
        checks = {**self.live, **(self.ready if name == "readyz" else {})}
        if one:
            if one not in checks:
                return None
            checks = {one: checks[one]}
        asked = parse_qs(query, keep_blank_values=True)
        left_out = set(asked.get("exclude", ()))
        lines, well = [], True
        for check, why_not in checks.items():
            if check in left_out:
                lines.append(f"[+]{check} excluded: ok")
            elif reason := why_not():
                well = False
                lines.append(f"[-]{check} failed: {reason}")
            else:
                lines.append(f"[+]{check} ok")
        if well and "verbose" not in asked:
            return 200, "ok"
        lines.append(f"{name} check {'passed' if well else 'failed'}")
        return (200 if well else 500), "\n".join(lines) + "\n"
