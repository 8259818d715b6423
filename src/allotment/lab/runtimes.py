"""Container runtimes of a lab's nodes: simulated, local processes, or an OCI runtime."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from allotment.node.runtimes.images import demo_images, read_images
from allotment.node.runtimes.oci import OciRuntime, find_program
from allotment.node.runtimes.process import ProcessRuntime
from allotment.node.runtimes.runtime import Runtime

RuntimeName = Literal["simulated", "process", "oci"]
NAMES: Final[tuple[RuntimeName, ...]] = ("simulated", "process", "oci")


class NoRuntime(Exception):
    """Raised for a runtime that is not available; the text says what to install."""


@asynccontextmanager
async def runtime(name: RuntimeName, images: Path | None, server: str = "") -> AsyncIterator[Runtime | None]:
    """The runtime of a name; None for the simulated one, which every node has. Containers end with the lab.

    ``images``: the file that maps images to local programs; without it only the demo's application runs. ``server``:
    the API server's URL, for processes. Raises InvalidImages and NoRuntime.
    """
    if name == "simulated":
        yield None
        return
    known = demo_images() if images is None else read_images(images)
    program = find_program() if name == "oci" else ""
    if program is None:
        raise NoRuntime("runtime oci: neither crun nor runc is installed here")
    with tempfile.TemporaryDirectory(prefix="allotment-containers-") as folder:
        made: Runtime
        made = OciRuntime([program], known, Path(folder)) if program else ProcessRuntime(known, Path(folder), server)
        try:
            yield made
        finally:
            await made.close()
