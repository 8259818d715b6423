"""The articles' GPU demo in a simulated container: it renders pages of the source tree's application on request.

Nothing from a manifest is run. The application reads the container's variables, so that it finds its simulated GPU and
is limited to its share of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from allotment.checkout import application_module, examples_folder
from allotment.node.runtimes.simulated_http import Answer

#: Answer on a container's ports without a source tree.
ABSENT: Final = "the demo application exists only in Allotment's source tree (examples/gpu_fractal)\n"
_IMAGE: Final = re.compile(r"(.*/)?gpu-demo-app([:@].*)?")


def is_demo(image: str) -> bool:
    """Whether an image is that of the demo.

    >>> is_demo("ghcr.io/castai/gpu-demo-app:latest"), is_demo("nginx")
    (True, False)
    """
    return _IMAGE.fullmatch(image) is not None


class Site(Protocol):
    """The application without sockets."""

    def respond(self, path: str) -> tuple[int, str, bytes]:
        """HTTP status, content type and body for a GET."""

    def leave(self) -> None:
        """Release the GPU and return when it is free."""


def demo(environment: Mapping[str, str]) -> Demo | None:
    """The application of one container; None without a source tree."""
    folder = examples_folder()
    return None if folder is None else Demo(application_module(folder, "site").Site(environment))


class Demo:
    """The application of one container. It renders in its own thread, started with the first request."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ended = False
        self._left: asyncio.Future[None] | None = None
        self._used = False
        self._thread = ThreadPoolExecutor(1, "gpu-demo-app")

    async def __call__(self, path: str) -> Answer:
        """The answer for a path, also if rendering fails. Raises OSError when the container has ended."""
        loop = asyncio.get_running_loop()
        if self._ended:
            raise ConnectionResetError("the application has ended")
        self._used = True
        return Answer(*await loop.run_in_executor(self._thread, self._site.respond, path))

    def end(self, _: asyncio.Task[Any]) -> None:
        """Start releasing the GPU: the container has ended."""
        self._ended = True
        if self._used:  # else there is nothing to leave
            self._left = asyncio.get_running_loop().run_in_executor(None, self._site.leave)
        self._thread.shutdown(wait=False)

    async def gone(self) -> None:
        """Wait until the GPU is released. As on real hardware, a container has not ended while it holds a device."""
        if self._left is not None:
            await asyncio.shield(self._left)
