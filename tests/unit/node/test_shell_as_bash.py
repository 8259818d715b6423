"""Scripts have the output of bash in the simulated shell, and fail where they fail in bash."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from allotment.cluster.clock import Clock
from allotment.node.container_files import ContainerFiles
from allotment.node.programs.container_view import ContainerView
from allotment.node.programs.execution import execute
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.streams import Input, Streams

SCRIPTS: Final = Path(__file__).parent / "shell_scripts"
BASH: Final = shutil.which("bash")
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C"}


def scripts() -> list[str]:
    return [
        script.removesuffix("\n")
        for file in sorted(SCRIPTS.iterdir())
        for script in file.read_text(encoding="utf-8").split("\n----\n")
    ]


async def simulated(script: str) -> tuple[bool, str]:
    out = bytearray()

    async def write(data: bytes) -> None:
        out.extend(data)

    async def discard(data: bytes) -> None: ...

    files = ContainerFiles(working_directory="/work")
    process = Process(["bash", "-c", script], ENVIRONMENT, Streams(Input(), write, discard), files, "/work")
    code = await execute(process, ContainerView("test", (), Clock(10_000)))
    return code == 0, out.decode()


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize("part", range(4))
def test_scripts_behave_as_in_bash(part: int, tmp_path: Path) -> None:
    different: list[str] = []
    for number, script in enumerate(scripts()[part::4]):
        folder = tmp_path / str(number)
        folder.mkdir()
        real = subprocess.run(
            [BASH or "", "-c", script], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT,
            timeout=30, check=False,
        )  # fmt: skip
        expected = real.returncode == 0, real.stdout.decode().replace(os.fspath(folder), "/work")
        # A program that is not found: bash says 1 where POSIX says "greater than zero".
        if (found := asyncio.run(simulated(script))) != expected and "command -v nowhere" not in script:
            different.append(f"{script}\nexpected {expected}\nfound    {found}")
    assert not different, "\n\n".join(different)
