"""What the containers of a lab's nodes run as: only in name, or as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from allotment.node.runtimes.images import demo_images, read_images
from allotment.node.runtimes.process import ProcessRuntime
from allotment.node.runtimes.runtime import Runtime

RuntimeName = Literal["simulated", "process"]
NAMES: Final[tuple[RuntimeName, ...]] = ("simulated", "process")


@asynccontextmanager
async def runtime(name: RuntimeName, images: Path | None) -> AsyncIterator[Runtime | None]:
    """The runtime of a name; None for the simulated one, which every node has anyway. At the end nothing runs on.

    ``images``: the file that says what stands for an image; without one only the demo's application runs. Raises
    InvalidImages.
    """
    if name == "simulated":
        yield None
        return
    known = demo_images() if images is None else read_images(images)
    with tempfile.TemporaryDirectory(prefix="allotment-containers-") as folder:
        process = ProcessRuntime(known, Path(folder))
        try:
            yield process
        finally:
            await process.close()
