"""Runs programs of NVIDIA's driver, such as ``nvidia-smi``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from allotment.drivers.nvidia.hardware import HardwareError
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.nvml.library import find_library

#: A program that takes longer hangs in the kernel.
TIMEOUT_SECONDS = 30.0


class CommandResult(NamedTuple):
    """The exit status and the output of a program."""

    status: int
    output: str


def program(roots: Roots, name: str) -> Path:
    """The path of one of the driver's programs. Raises HardwareError if it is not installed."""
    path = roots.program(name)
    if path is None:
        raise HardwareError(f"no {name} under {roots.driver}: NVIDIA's driver is not installed there, or is incomplete")
    return path


async def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: str = "", output: Path | None = None
) -> CommandResult:
    """Run a program until it exits, with ``stdin`` as its input. Raises HardwareError if it cannot start, or hangs.

    ``output``: a file for its output, for programs that leave others running, which would keep a pipe open.
    """
    try:
        with nullcontext(asyncio.subprocess.PIPE) if output is None else output.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **(env or {})},
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # signals to this driver must not stop the programs that it started
            )
    except OSError as error:
        raise HardwareError(f"{' '.join(command)}: {error.strerror}") from None
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            stdout, _ = await process.communicate(stdin.encode())
    except TimeoutError:
        raise HardwareError(f"{' '.join(command)}: did not finish within {TIMEOUT_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = stdout if output is None else output.read_bytes()
    return CommandResult(process.returncode or 0, text.decode(errors="replace").strip())


async def nvidia_smi(roots: Roots, uuid: str, *arguments: str, ignore_unsupported: bool = False) -> None:
    """Run ``nvidia-smi``. Raises HardwareError with its output.

    ``ignore_unsupported``: it is no error if the GPU does not support the operation.
    """
    command = (str(program(roots, "nvidia-smi")), *arguments)
    library = find_library(roots.driver)
    # Preloaded, so that it does not find another driver's library, or none in a container.
    result = await run(command, env={"LD_PRELOAD": str(library)} if library else None)
    if result.status == 0 or (ignore_unsupported and "not supported" in result.output.lower()):
        return
    reason = result.output.splitlines()[-1] if result.output else "no reason given"
    raise HardwareError(f"GPU {uuid}: nvidia-smi {' '.join(arguments)} exited with code {result.status}: {reason}")
