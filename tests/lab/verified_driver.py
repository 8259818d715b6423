"""The example driver as a program to be interrupted and killed: ``… FOLDER SERVER NODE [breaks]``.

With ``breaks`` it answers every claim with an error.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.drivers.driver import AllocatedClaim, ClaimError, Tree
from allotment.drivers.example.driver import ExampleGpus
from allotment.drivers.program import DriverOptions, serve_in_cluster


class FailingDriver(ExampleGpus):
    def plan(self, claim: AllocatedClaim) -> Tree:
        raise ClaimError("out of order")


async def main(folder: Path, server: str, node: str, how: str = "") -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    driver = (FailingDriver if how else ExampleGpus)(node, 4)
    place = DriverOptions(node, "", folder / "plugins", folder / "plugins_registry", folder / "cdi")
    await serve_in_cluster(driver, place, ClusterTarget(server), stop)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
