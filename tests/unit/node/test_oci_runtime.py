"""Containers of an OCI runtime; skipped with a reason where none can run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from allotment.cdi.spec import ContainerEdits, DeviceNode, Mount
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.oci import OciRuntime
from allotment.node.runtimes.runtime import NotStarted
from tests.unit.node.sandboxes import Log, sandbox, typed

#: The host's programs, in a container that is otherwise empty.
_HOST = {path: Path(path) for path in ("/bin", "/lib", "/lib64", "/usr") if Path(path).exists()}
#: crun rejects machines with both versions of cgroups; it works if the second one is hidden.
_HYBRID = ("unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified && exec crun "$@"', "crun")
_WAYS = {"crun": ("crun",), "crun, hybrid cgroups": _HYBRID, "runc": ("runc",)}


def _runtime(program: tuple[str, ...], folder: Path) -> OciRuntime:
    for name in ("tmp", "run"):
        (folder / "rootfs" / name).mkdir(parents=True, exist_ok=True)
    images = [Image("shell", rootfs=str(folder / "rootfs"), env={"COLOR": "image"}), Image("bare", ("x",))]
    return OciRuntime(program, Images(images), folder / "containers", "oci")


@cache
def _why_not(way: str) -> str:
    """The reason why containers cannot run in this way on this machine; empty if they can."""
    program = _WAYS[way]
    if os.geteuid() != 0:
        return "needs root"
    if not all(shutil.which(word) for word in {program[0], program[-1]}):
        return f"no {program[-1]} on this machine"

    async def trial(folder: Path) -> str:
        runtime, log = _runtime(program, folder), Log()
        try:
            code = await (await runtime.start(sandbox("true", mounts=_HOST), log)).wait()
        except NotStarted as error:
            return str(error)
        finally:
            await runtime.close()
        return "" if code == 0 else f"`true` ended with {code}: {log.text}"

    with TemporaryDirectory() as folder:
        return asyncio.run(trial(Path(folder)))


@pytest.fixture(params=["crun", "runc"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[OciRuntime], Awaitable[None]]], None]:
    """Run a scenario with a runtime; afterwards no containers may be left."""
    ways = [way for way in _WAYS if way.startswith(request.param)]
    reasons = {way: _why_not(way) for way in ways}
    way = next((way for way in ways if not reasons[way]), None)
    if way is None:
        pytest.skip(f"NOT TESTED: containers by {'; '.join(f'{way}: {why}' for way, why in reasons.items())}")

    async def run(scenario: Callable[[OciRuntime], Awaitable[None]]) -> None:
        runtime = _runtime(_WAYS[way], tmp_path)
        async with asyncio.timeout(240):
            try:
                await scenario(runtime)
            finally:
                await runtime.close()
        assert list((tmp_path / "containers").glob("container-*")) == []
        assert await runtime.run_command("list", "--quiet") == ""
        assert str(tmp_path) not in Path("/proc/mounts").read_text()

    return lambda scenario: asyncio.run(run(scenario))


Run = Callable[[Callable[[OciRuntime], Awaitable[None]]], None]


def test_a_container_has_its_own_processes_name_and_files(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        script = "echo $$; cat /proc/sys/kernel/hostname; pwd; echo $A $COLOR; touch /tmp/x /x && ls -d /x; exit 7"
        running = await runtime.start(sandbox("sh", "-c", script, env={"A": "1"}, mounts=_HOST), log)
        assert await running.wait() == 7
        assert log.text.splitlines() == ["1", "pod", "/", "1 image", "/x"]

    run(scenario)


def test_what_a_container_writes_is_gone_with_it(run: Run, tmp_path: Path) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        for _ in range(2):
            running = await runtime.start(sandbox("sh", "-c", "echo x >> /x; cat /x", mounts=_HOST), log)
            assert await running.wait() == 0
        assert log.text == "x\nx\n"
        assert sorted(path.name for path in (tmp_path / "rootfs").iterdir()) == ["run", "tmp"]

    run(scenario)


def test_a_read_only_root_file_system_cannot_be_written(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        spec = {"securityContext": {"readOnlyRootFilesystem": True}}
        given = sandbox("sh", "-c", "touch /tmp/x && touch /x", mounts=_HOST)
        given = given._replace(spec={**given.spec, **spec})
        assert await (await runtime.start(given, log)).wait() != 0
        assert "Read-only file system" in log.text

    run(scenario)


def test_cdi_edits_are_applied_completely(run: Run, tmp_path: Path) -> None:
    (tmp_path / "library").write_text("from the driver\n")
    edits = ContainerEdits(
        env=("A=cdi",),
        device_nodes=(DeviceNode("/dev/gpu0", "/dev/null", permissions="rw"),),
        mounts=(Mount(str(tmp_path / "library"), "/opt/driver/library", ("ro", "bind")),),
        additional_gids=(4711,),
    )

    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        script = "echo $A; id -G; cat /opt/driver/library; echo x > /dev/gpu0 && stat -c '%F %t %T' /dev/gpu0"
        given = sandbox("sh", "-c", script, env={"A": "manifest"}, edits=edits, mounts=_HOST)
        assert await (await runtime.start(given, log)).wait() == 0
        assert log.text.splitlines() == ["cdi", "0 4711", "from the driver", "character special file 1 3"]

    run(scenario)


def test_an_unallocated_device_cannot_be_opened(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        script = "mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem; test -e /dev/mem || echo none"
        assert await (await runtime.start(sandbox("sh", "-c", script, mounts=_HOST), log)).wait() == 0
        assert "none" in log.text
        assert "Operation not permitted" in log.text or "Permission denied" in log.text

    run(scenario)


def test_a_command_may_end_after_the_files_of_its_container(run: Run, tmp_path: Path) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100", mounts=_HOST), Log())

        out = Log()

        async def after_removal(data: bytes) -> None:
            for file in (tmp_path / "containers").glob("container-*/exec-*"):
                file.unlink()
            await out(data)

        assert await running.exec(["echo", "up"], stdin=None, stdout=after_removal, stderr=out, tty=False) == 0
        assert out.text == "up\n"

    run(scenario)


def test_exec_runs_inside_and_on_a_terminal_if_requested(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100", env={"A": "1"}, mounts=_HOST), Log())
        out, err = Log(), Log()
        words = ["sh", "-c", "cat; echo $A; cat /proc/1/comm; echo oops >&2; exit 4"]
        assert await running.exec(words, stdin=typed(b"typed\n"), stdout=out, stderr=err, tty=False) == 4
        assert (out.text, err.text) == ("typed\n1\nsleep\n", "oops\n")
        words = ["sh", "-c", "read line; test -t 0 && echo got $line; exit 5"]
        assert await running.exec(words, stdin=typed(b"typed\n"), stdout=out, stderr=err, tty=True) == 5
        assert "got typed" in out.text

    run(scenario)


def test_a_port_of_the_container_is_reached_from_outside_its_network(run: Run) -> None:
    server = (
        "import socket; s = socket.create_server(('127.0.0.1', 5000)); print('up', flush=True)\n"
        "c, _ = s.accept(); c.sendall(b'hello ' + c.recv(9)); c.close()"
    )
    mounts = {**_HOST, sys.base_prefix: Path(sys.base_prefix)}
    python = os.path.realpath(sys.executable)

    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        running = await runtime.start(sandbox(python, "-I", "-S", "-c", server, mounts=mounts, ports=(5000,)), log)
        await log.until("up")
        connection = await running.connect(5000)
        await connection.write(b"you")
        assert await connection.read() == b"hello you"
        await connection.close()
        assert await running.wait() == 0
        with pytest.raises(OSError, match="is not running"):
            await running.connect(5000)

    run(scenario)


def test_connecting_to_a_closed_port_fails(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100", mounts=_HOST), Log())
        with pytest.raises(ConnectionRefusedError):
            await running.connect(5000)

    run(scenario)


def test_stop_sends_sigterm_and_then_sigkill(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"
        running = await runtime.start(sandbox("sh", "-c", script, mounts=_HOST), log)
        await log.until("up")
        await running.stop(20)
        assert await running.wait() == 3
        # The first process of a container receives only signals that it handles.
        deaf = await runtime.start(sandbox("sleep", "100", mounts=_HOST), Log())
        await deaf.stop(0.1)
        assert await deaf.wait() == 128 + signal.SIGKILL

    run(scenario)


def test_the_error_of_container_creation_is_reported(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        missing = ContainerEdits(device_nodes=(DeviceNode("/dev/no-such-gpu"),))
        with pytest.raises(
            NotStarted, match="CDI device injection failed: device node /dev/no-such-gpu: No such"
        ) as caught:
            await runtime.start(sandbox("true", edits=missing, mounts=_HOST), Log())
        assert caught.value.reason == "CreateContainerError"
        with pytest.raises(NotStarted, match="has no root file system: set rootfs") as caught:
            await runtime.start(sandbox("true", image="bare"), Log())
        assert caught.value.reason == "ErrImagePull"

    run(scenario)


def test_a_missing_program_does_not_run(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        log = Log()
        try:
            code = await (await runtime.start(sandbox("no-such-program", mounts=_HOST), log)).wait()
        except NotStarted as error:
            log.data += str(error).encode()
            code = 127
        assert code != 0
        assert "no-such-program" in log.text

    run(scenario)


def test_close_kills_and_cleans_up(run: Run) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100", mounts=_HOST), Log())
        await runtime.close()
        assert await running.wait() == 128 + signal.SIGKILL

    run(scenario)


_AGENT = """
import asyncio, json, sys
from pathlib import Path
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.oci import OciRuntime
from tests.unit.node.sandboxes import sandbox

async def main():
    program, rootfs, folder, mounts = json.loads(sys.argv[1])
    runtime = OciRuntime(program, Images([Image("shell", rootfs=rootfs)]), Path(folder), "oci")

    async def output(data):
        print("said", data.decode(), end="", flush=True)

    script = "trap '' TERM HUP; echo up; (setsid sleep 100 &); sleep 100"
    given = sandbox("sh", "-c", script, mounts={path: Path(path) for path in mounts})
    running = await runtime.start(given, output)
    await running.wait()

asyncio.run(main())
"""


def test_processes_end_with_a_killed_agent_and_the_next_one_cleans_up(run: Run, tmp_path: Path) -> None:
    async def scenario(runtime: OciRuntime) -> None:
        folder = tmp_path / "containers"
        argument = json.dumps([runtime.program[:-2], str(tmp_path / "rootfs"), str(folder), list(_HOST)])
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _AGENT, argument, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
        assert agent.stdout is not None
        assert await agent.stdout.readline() == b"said up\n"
        (left,) = folder.glob("container-*")
        process = int((left / "pid").read_text())
        assert Path(f"/proc/{process}").exists()
        agent.kill()
        await agent.wait()
        while Path(f"/proc/{process}").exists():
            await asyncio.sleep(0.02)
        assert await (await runtime.start(sandbox("true", mounts=_HOST), Log())).wait() == 0
        assert not left.exists()

    run(scenario)
