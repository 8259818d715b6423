"""MPS control daemons as processes of the host.

A daemon has a folder named by its key, with ``pipe`` (its control pipe), ``shm`` and ``log``. It outlives the driver
that started it. Whether a daemon runs is determined by a request to it, so that a restarted driver finds its daemons.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from allotment.cdi.spec import ContainerEdits, Mount
from allotment.drivers.nvidia.hardware import HardwareError, MpsDaemon
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.host.sysfs import read
from allotment.drivers.nvidia.host.vendor_tools import CommandResult, program, run
from allotment.drivers.nvidia.nvml.library import find_library

CONTROL = "nvidia-cuda-mps-control"

#: The control pipe's folder in the container of a client.
PIPE_IN_CONTAINER = "/tmp/nvidia-mps"

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ERROR = re.compile(r"\b(error|failed|invalid|unrecognized|not supported)\b", re.IGNORECASE)
_MEMORY = re.compile(r"^MemTotal:\s+([0-9]+) kB", re.MULTILINE)
_DEFAULT_SHM_BYTES = 64 << 20


class MpsDaemons:
    """The control daemons of a host. ``timeout``: seconds for a daemon to start, and to stop."""

    def __init__(self, roots: Roots, timeout: float = 20.0) -> None:
        self._roots = roots
        self._timeout = timeout

    async def start(self, daemon: MpsDaemon) -> None:
        """Start a daemon, wait until it answers, and set its limits. A running one only gets the limits. Raises
        HardwareError.
        """
        folder = self._folder(daemon.key)
        if not await self._is_running(folder):
            await self._remove_folder(folder)
            await self._launch(folder, daemon)
        try:
            await self._set_limits(folder, daemon)
        except HardwareError:
            await self.stop(daemon.key)
            raise

    async def stop(self, key: str) -> None:
        """Stop a daemon with its servers, and remove its folder."""
        folder = self._folder(key)
        if not folder.exists():
            return
        with suppress(HardwareError):
            await self._send(folder, "quit")
        if not await self._wait_until(folder, running=False):
            self._kill(folder)
        await self._remove_folder(folder)

    async def running(self) -> frozenset[str]:
        """Keys of the daemons that answer."""
        try:
            folders = sorted(path for path in (self._roots.state / "mps").iterdir() if path.is_dir())
        except OSError:
            return frozenset()
        return frozenset([folder.name for folder in folders if await self._is_running(folder)])

    def edits(self, key: str) -> ContainerEdits:
        """Edits for a container that is a client."""
        folder = self._folder(key)
        options = ("rw", "nosuid", "nodev", "rbind", "rprivate")
        return ContainerEdits(
            env=(f"CUDA_MPS_PIPE_DIRECTORY={PIPE_IN_CONTAINER}",),
            mounts=(
                Mount(host_path=str(folder / "shm"), container_path="/dev/shm", options=options),
                Mount(host_path=str(folder / "pipe"), container_path=PIPE_IN_CONTAINER, options=options),
            ),
        )

    # --- steps --------------------------------------------------------------------------------------------------------

    def _folder(self, key: str) -> Path:
        if _KEY.fullmatch(key) is None:
            raise HardwareError(f"MPS control daemon {key!r}: expected only letters, digits, dots and dashes")
        return self._roots.state / "mps" / key

    async def _launch(self, folder: Path, daemon: MpsDaemon) -> None:
        for name in ("pipe", "shm", "log"):
            (folder / name).mkdir(parents=True)
        (folder / "shm").chmod(0o1777)  # like /dev/shm, also if nothing is mounted on it
        await self._mount_shm(folder / "shm")
        command = [str(program(self._roots, CONTROL)), "-d", *(["-M"] if daemon.multi_user else [])]
        env = {**self._environment(folder), "CUDA_VISIBLE_DEVICES": ",".join(daemon.uuids)}
        result = await run(command, env=env, output=folder / "log/start.log")
        if result.status == 0 and await self._wait_until(folder, running=True):
            return
        reason = result.output or _last_line(folder / "log/control.log") or "no reason given"
        await self.stop(daemon.key)
        raise HardwareError(f"MPS control daemon {daemon.key} did not start: {reason}")

    async def _set_limits(self, folder: Path, daemon: MpsDaemon) -> None:
        commands = [f"set_default_device_pinned_mem_limit {uuid} {mib}M" for uuid, mib in daemon.memory_limits.items()]
        if daemon.threads is not None:
            commands.append(f"set_default_active_thread_percentage {daemon.threads}")
        for command in commands:
            result = await self._send(folder, command)
            if result.status != 0 or _ERROR.search(result.output):
                raise HardwareError(f"MPS control daemon {daemon.key}: {command}: {result.output or 'refused'}")

    async def _send(self, folder: Path, command: str) -> CommandResult:
        return await run([str(program(self._roots, CONTROL))], env=self._environment(folder), stdin=f"{command}\n")

    async def _is_running(self, folder: Path) -> bool:
        if not (folder / "pipe").is_dir():
            return False
        try:
            return (await self._send(folder, "get_server_list")).status == 0
        except HardwareError:
            return False

    async def _wait_until(self, folder: Path, *, running: bool) -> bool:
        pause = 0.02
        try:
            async with asyncio.timeout(self._timeout):
                while await self._is_running(folder) != running:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 1.0)
        except TimeoutError:
            return False
        return True

    def _kill(self, folder: Path) -> None:
        """Kill a daemon that does not quit.

        Its pid file can be written by clients, and pids are reused, so the process is checked first.
        """
        pid = read(folder / "pipe" / f"{CONTROL}.pid")
        if not pid.isdecimal():
            return
        process = self._roots.proc / pid
        is_this_daemon = f"CUDA_MPS_PIPE_DIRECTORY={folder / 'pipe'}" in read(process / "environ").split("\0")
        if is_this_daemon and read(process / "comm").startswith("nvidia-cuda-mps"):
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def _environment(self, folder: Path) -> dict[str, str]:
        env = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
        library = find_library(self._roots.driver)
        if library is not None and self._roots.driver != Path("/"):
            env["LD_LIBRARY_PATH"] = str(library.parent)
        return env

    # --- folders ------------------------------------------------------------------------------------------------------

    async def _mount_shm(self, shm: Path) -> None:
        """Mount a separate file system for shared memory, so that one claim cannot fill the host's.

        Without the permission to mount, shared memory is a plain folder.
        """
        memory = _MEMORY.search(read(self._roots.proc / "meminfo"))
        size = int(memory[1]) * 1024 // 2 if memory else _DEFAULT_SHM_BYTES
        options = f"rw,nosuid,nodev,noexec,relatime,size={size}"
        with suppress(HardwareError):
            await run(["mount", "-t", "tmpfs", "-o", options, "shm", str(shm)])

    async def _remove_folder(self, folder: Path) -> None:
        if (folder / "shm").is_mount():
            await run(["umount", "-l", str(folder / "shm")])
        shutil.rmtree(folder, ignore_errors=True)


def _last_line(path: Path) -> str:
    lines = read(path).splitlines()
    return lines[-1] if lines else ""
