"""A driver in a separate process that can be killed: ``python -m tests.unit.kubelet_plugin.driver_program FOLDER DEVICE
[POD_UID]``.

It prints ``ready`` when its sockets exist, and ``registered`` after its registration. A driver that never answers
creates a file ``called`` instead.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from allotment.kubelet_plugin.server import serve_plugin
from tests.unit.kubelet_plugin.fake_driver import FakeDriver, paths


def tell(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


async def main(folder: Path, says: str, pod_uid: str = "") -> None:
    driver = FakeDriver(says=says)

    async def for_ever() -> None:
        (folder / "called").touch()
        await asyncio.Event().wait()

    if says == "never answers":
        driver.before = for_ever
    async with serve_plugin(driver, *paths(folder, pod_uid=pod_uid), on_registered=lambda *_: tell("registered")):
        tell("ready")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
