"""A driver in a separate process that can be killed: ``python -m ... FOLDER DEVICE [POD_UID]``.

It prints ``ready`` when its sockets exist, and ``registered`` after its registration. A driver that never answers
creates a file ``called`` instead.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from allotment.kubelet_plugin.server import serve_plugin
from tests.unit.kubelet_plugin.fake_driver import FakeDriver, paths


def write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(folder: Path, device: str, pod_uid: str = "") -> None:
    driver = FakeDriver(device_name=device)

    async def wait_forever() -> None:
        (folder / "called").touch()
        await asyncio.Event().wait()

    if device == "never answers":
        driver.before = wait_forever
    async with serve_plugin(driver, *paths(folder, pod_uid=pod_uid), on_registered=lambda *_: write_line("registered")):
        write_line("ready")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
