"""The articles' GPU demo in a simulated container: the application of the source tree, drawn when a client requests it.

Nothing that a manifest brings is run. The container's variables are those that the application reads, so that it knows
its simulated GPU and is held to its share of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from allotment.checkout import application_module, examples_folder
from allotment.node.runtimes.simulated_http import Answer

#: What a container says on its ports where there is no source tree.
ABSENT: Final = "application: only in Allotment's source tree (examples/gpu_fractal)\n"
_IMAGE: Final = re.compile(r"(.*/)?gpu-demo-app([:@].*)?")


def is_demo(image: str) -> bool:
    """Whether an image is that of the demo.

    >>> is_demo("ghcr.io/castai/gpu-demo-app:latest"), is_demo("nginx")
    (True, False)
    """
    return _IMAGE.fullmatch(image) is not None


class Site(Protocol):
    """What the application is without sockets."""

    def respond(self, path: str) -> tuple[int, str, bytes]:
        """HTTP status, content type and body for a GET."""

    def leave(self) -> None:
        """Leave the GPU, and return when it is free."""


def demo(environment: Mapping[str, str]) -> Demo | None:
    """The application of one container; None where there is no source tree to take it from."""
    folder = examples_folder()
    return None if folder is None else Demo(application_module(folder, "site").Site(environment))


class Demo:
    """The application of one container. It draws in a thread of its own, which begins with the first request."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ended = False
        self._left: asyncio.Future[None] | None = None
        self._used = False
        self._thread = ThreadPoolExecutor(1, "gpu-demo-app")

    async def __call__(self, path: str) -> Answer:
        """What is at a path; an application that cannot draw says why. Raises OSError when the container has ended."""
        loop = asyncio.get_running_loop()
        if self._ended:
            raise ConnectionResetError("the application has ended")
        self._used = True
        return Answer(*await loop.run_in_executor(self._thread, self._site.respond, path))

    def end(self, _: asyncio.Task[Any]) -> None:
        """The container has ended: begin to leave its GPU."""
        self._ended = True
        if self._used:  # else there is nothing to leave
            self._left = asyncio.get_running_loop().run_in_executor(None, self._site.leave)
        self._thread.shutdown(wait=False)

    async def gone(self) -> None:
        """Wait until nothing of it uses a GPU. As on a real one: what holds a device has ended when it let go of it."""
        if self._left is not None:
            await asyncio.shield(self._left)
