from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from allotment.cdi.spec import ContainerEdits, DeviceNode, Hook, Mount
from allotment.cluster.tcp_connection import StreamConnection
from allotment.node.device_view import ContainerDevice
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.process import ProcessRunning, ProcessRuntime
from allotment.node.runtimes.runtime import NotStarted
from tests.polling import wait_until
from tests.unit.node.sandboxes import Log, sandbox, typed

_IMAGES = Images(
    [
        Image("shell", commands="run"),
        Image("server", ("{python}", "-S", "-m", "http.server", "--bind", "127.0.0.1", "{port}")),
        Image("python", ("{python}", "-c", "import colorsys, os; print(os.environ['NODE_NAME'])")),
        Image("printer", ("sh", "-c", 'echo "$0 $COLOR"'), {"COLOR": "image"}),
    ]
)


@asynccontextmanager
async def _runtime(folder: Path) -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime(_IMAGES, folder / "containers")
    try:
        yield runtime
    finally:
        await runtime.close()


def _run(folder: Path, scenario: Callable[[ProcessRuntime], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(240), _runtime(folder) as runtime:
            await scenario(runtime)

    asyncio.run(run())


def _alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _gone(process: int) -> bool:
    wait_until(lambda: not _alive(process))
    return True


def test_a_command_runs_in_its_own_folder_with_output_and_exit_code(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        running = await runtime.start(sandbox("sh", "-c", "pwd; echo oops >&2; echo $HOME; exit 7"), log)
        assert await running.wait() == 7
        folder, oops, home = log.text.splitlines()
        assert oops == "oops"
        assert folder == home
        assert Path(folder).parent == tmp_path / "containers"
        assert list((tmp_path / "containers").iterdir()) == []

    _run(tmp_path, scenario)


def test_the_environment_is_that_of_the_manifest_and_cdi_without_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "1")

    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        edits = ContainerEdits(env=("A=cdi", "NVIDIA_VISIBLE_DEVICES=void"))
        running = await runtime.start(sandbox("env", env={"A": "manifest", "B": "manifest"}, edits=edits), log)
        assert await running.wait() == 0
        found = dict(line.split("=", 1) for line in log.text.splitlines())
        assert (found["A"], found["B"], found["NVIDIA_VISIBLE_DEVICES"]) == ("cdi", "manifest", "void")
        assert found["PATH"] == os.environ["PATH"]
        assert "SECRET_OF_THE_AGENT" not in found

    _run(tmp_path, scenario)


def test_variables_of_the_manifest_override_those_of_the_image(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        for env, color in ({}, "image"), ({"COLOR": "manifest"}, "manifest"):
            log = Log()
            running = await runtime.start(sandbox(args=("argument",), image="printer", env=env), log)
            assert await running.wait() == 0
            assert log.text == f"argument {color}\n"

    _run(tmp_path, scenario)


def test_a_manifest_cannot_inject_code_into_an_image_with_a_fixed_command(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    for module in ("sitecustomize", "colorsys"):
        (volume / f"{module}.py").write_text("print('stolen')\n")

    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        env = {"PYTHONPATH": "/mnt", "PATH": "/mnt", "HOME": "/mnt", "NODE_NAME": "n1"}
        box = sandbox(image="python", env=env, mounts={"/mnt": volume}, workingDir="/mnt")
        assert await (await runtime.start(box, log)).wait() == 0
        first, *printed = log.text.splitlines()
        assert printed == ["n1"]
        assert first.endswith(
            '; variables not set, because commands = "run" is not set for python: PYTHONPATH, PATH, HOME'
        )

    _run(tmp_path, scenario)


def test_a_container_sees_only_its_allocated_nvidia_devices(tmp_path: Path) -> None:
    gpu = ContainerDevice("gpu.nvidia.com", "node", "gpu-0", "A100", "GPU-7f0c", 0, "", "")

    async def scenario(runtime: ProcessRuntime) -> None:
        for devices, env, visible in (
            ((), {}, ""), ((gpu, gpu._replace(uuid="MIG-1")), {}, "GPU-7f0c,MIG-1"),
            ((gpu,), {"CUDA_VISIBLE_DEVICES": "0"}, "0"),
        ):  # fmt: skip
            log = Log()
            show = sandbox("sh", "-c", 'echo "<$CUDA_VISIBLE_DEVICES>"', devices=devices, env=env)
            assert await (await runtime.start(show, log)).wait() == 0
            assert log.text == f"<{visible}>\n"

    _run(tmp_path, scenario)


def test_container_paths_are_replaced_by_host_paths_and_logged(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "settings").write_text("from the volume\n")
    edits = ContainerEdits(
        env=("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",),
        mounts=(Mount("/run/mps/7f0c", "/tmp/nvidia-mps"), Mount("/usr/lib", "/usr/lib")),
        hooks=(Hook("createContainer", "/usr/bin/nvidia-cdi-hook"),),
        device_nodes=(DeviceNode("/dev/nvidia0"),),
    )

    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        shown = 'cat "$0"; echo "$CUDA_MPS_PIPE_DIRECTORY $BOTH"; pwd'
        given = sandbox(
            "sh", "-c", shown, "/etc/app/settings", env={"BOTH": "/usr/lib:/etc/app"}, edits=edits,
            mounts={"/etc/app/": volume}, workingDir="/etc/app",
        )  # fmt: skip
        assert await (await runtime.start(given, log)).wait() == 0
        note, *lines = log.text.splitlines()
        assert lines == ["from the volume", f"/run/mps/7f0c /usr/lib:{volume}", str(volume)]
        assert note == (
            f"allotment: runs as a process on this machine, without isolation: /etc/app is available at {volume}; "
            "/tmp/nvidia-mps is available at /run/mps/7f0c; CDI hooks not run: 1"
        )

    _run(tmp_path, scenario)


def test_its_own_folder_exists_with_any_volumes(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()

    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        # The container's folder is below this one, as it is below /tmp on most machines.
        shown = 'test -d "$HOME" && test -d "$TMPDIR" && echo there'
        given = sandbox("sh", "-c", shown, mounts={str(tmp_path): volume})
        assert await (await runtime.start(given, log)).wait() == 0
        assert "there" in log.text

    _run(tmp_path, scenario)


def test_the_program_of_an_image_is_found_with_any_volumes(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()

    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        # Like a volume at /tmp for a program that was installed below it.
        given = sandbox(image="python", env={"NODE_NAME": "n1"}, mounts={str(Path(sys.executable).parent): volume})
        assert await (await runtime.start(given, log)).wait() == 0
        assert log.text.splitlines()[-1] == "n1"

    _run(tmp_path, scenario)


def test_a_process_gets_a_kubeconfig(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "token").write_text("secret")
    mounts = {"/var/run/secrets/kubernetes.io/serviceaccount": volume}

    async def scenario() -> None:
        runtime = ProcessRuntime(_IMAGES, tmp_path / "containers", "https://127.0.0.1:6443")
        try:
            for env, wanted in (({}, True), ({"KUBECONFIG": "/mine"}, False)):
                log = Log()
                given = sandbox("sh", "-c", 'cat "$KUBECONFIG" || echo "$KUBECONFIG"', env=env, mounts=mounts)
                await (await runtime.start(given, log)).wait()
                assert (f'"tokenFile": "{volume}/token"' in log.text) is wanted
                assert ("/mine" in log.text) is not wanted
            log = Log()
            await (await runtime.start(sandbox("sh", "-c", "env"), log)).wait()
            assert "KUBECONFIG" not in log.text
        finally:
            await runtime.close()

    asyncio.run(asyncio.wait_for(scenario(), 240))


def test_two_replicas_listen_on_one_port_with_separate_host_ports(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        both = [await runtime.start(sandbox(image="server", ports=(8000,)), Log()) for _ in range(2)]
        assert both[0].ports != both[1].ports
        for running in both:
            connection = await _connected(running, 8000)
            await connection.write(b"GET / HTTP/1.0\r\n\r\n")
            assert (await connection.read()).startswith(b"HTTP/1.0 200")
            await connection.close()
        await asyncio.gather(*(running.stop(5) for running in both))

    _run(tmp_path, scenario)


async def _connected(running: ProcessRunning, port: int) -> StreamConnection:
    while True:
        try:
            return await running.connect(port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)


def test_a_program_that_ignores_its_port_is_not_reached(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100", ports=(8000,)), Log())
        with pytest.raises(ConnectionRefusedError, match="the address of this containerPort"):
            await running.connect(8000)

    _run(tmp_path, scenario)


def test_an_undeclared_port_is_never_a_port_of_the_host(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            running = await runtime.start(sandbox("sleep", "100"), Log())
            with pytest.raises(ConnectionRefusedError, match="does not declare this containerPort"):
                await running.connect(port)

    _run(tmp_path, scenario)


def test_stop_terminates_the_whole_group(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        child = "trap 'echo child; exit' TERM; touch there; while :; do sleep 0.05; done"
        script = (
            f"trap 'wait; echo bye; exit 3' TERM; ({child}) & until test -e there; do sleep 0.05; done; echo up; wait"
        )
        running = await runtime.start(sandbox("sh", "-c", script), log)
        await log.until("up")
        await running.stop(20)
        assert await running.wait() == 3
        assert {"child", "bye"} < set(log.text.split())

    _run(tmp_path, scenario)


def test_a_command_stopped_before_its_start_ends_immediately(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        for _ in range(5):
            running = await runtime.start(sandbox("sleep", "100"), Log())
            await running.stop(20)
            assert await running.wait() == 128 + signal.SIGTERM

    _run(tmp_path, scenario)


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        escapes = "(setsid sh -c 'trap \"\" TERM; echo $$ >left; sleep 100' &)"
        script = f"trap '' TERM; {escapes}; until test -s left; do sleep 0.05; done; cat left; echo up; sleep 100"
        running = await runtime.start(sandbox("sh", "-c", script), log)
        await log.until("up")
        escaped = int(log.text.split()[0])
        assert _alive(escaped)
        await running.stop(0.1)
        assert await running.wait() == 128 + signal.SIGKILL
        assert _gone(escaped)

    _run(tmp_path, scenario)


def test_many_processes_end_as_fast_as_one(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        script = "for i in $(seq 600); do sleep 100 & done; echo up; wait"
        running = await runtime.start(sandbox("sh", "-c", script), log)
        await log.until("up")
        running.kill()
        assert await running.wait() == 128 + signal.SIGKILL

    _run(tmp_path, scenario)


def test_background_processes_end_with_their_command(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        left = "(setsid sh -c 'echo $$ >left; exec sleep 100' &)"
        running = await runtime.start(
            sandbox("sh", "-c", f"{left}; until test -s left; do sleep 0.05; done; cat left"), log
        )
        assert await running.wait() == 0
        assert _gone(int(log.text))

    _run(tmp_path, scenario)


_AGENT = """
import asyncio, sys
from pathlib import Path
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.process import ProcessRuntime
from tests.unit.node.sandboxes import sandbox

async def main():
    runtime = ProcessRuntime(Images([Image("shell", commands="run")]), Path(sys.argv[1]))

    async def output(data):
        print(data.decode(), end="", flush=True)

    left = "(setsid sh -c 'echo $$ >left; exec sleep 100' &); until test -s left; do sleep 0.05; done; cat left"
    script = f"trap '' TERM HUP; echo $$; {left}; sleep 100"
    running = await runtime.start(sandbox("sh", "-c", script), output)
    await running.wait()

asyncio.run(main())
"""


def test_processes_end_with_a_killed_agent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _AGENT, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ) as agent:  # fmt: skip
        assert agent.stdout is not None
        processes = [int(agent.stdout.readline()) for _ in range(2)]
        assert all(_alive(process) for process in processes)
        agent.kill()
    assert all(_gone(process) for process in processes)

    # The folder of the container remains until the next agent starts.
    assert len(list(tmp_path.glob("container-*"))) == 1

    async def next_agent() -> None:
        runtime = ProcessRuntime(_IMAGES, tmp_path)
        await (await runtime.start(sandbox("true"), Log())).wait()
        await runtime.close()

    asyncio.run(next_agent())
    assert list(tmp_path.iterdir()) == []


def test_exec_runs_with_the_same_environment(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        main = sandbox("sh", "-c", "echo $$ > pid; echo up; sleep 100", env={"A": "1"})
        running = await runtime.start(main, log)
        await log.until("up")
        out, err = Log(), Log()
        words = ["sh", "-c", "cat; echo $A; test -s pid && echo found; echo oops >&2; exit 4"]
        assert await running.exec(words, stdin=typed(b"ty", b"ped\n"), stdout=out, stderr=err, tty=False) == 4
        assert (out.text, err.text) == ("typed\n1\nfound\n", "oops\n")

    _run(tmp_path, scenario)


def test_exec_on_a_terminal_is_on_a_terminal(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100"), Log())
        out, err = Log(), Log()
        words = ["sh", "-c", "read line; test -t 0 && test -t 1 && echo got $line; exit 5"]
        assert await running.exec(words, stdin=typed(b"typed\n"), stdout=out, stderr=err, tty=True) == 5
        assert "got typed\r\n" in out.text
        assert err.text == ""
        # What is typed after the end of the input is its end.
        assert await running.exec(["cat"], stdin=typed(b"a\n"), stdout=out, stderr=err, tty=True) == 0

    _run(tmp_path, scenario)


def test_exec_ends_with_its_container_and_with_its_client(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        running = await runtime.start(sandbox("sleep", "100"), Log())
        words = ["sh", "-c", "echo $$; exec sleep 100"]
        out, other = Log(), Log()
        awaited = asyncio.create_task(running.exec(words, stdin=None, stdout=out, stderr=Log(), tty=False))
        left = asyncio.create_task(running.exec(words, stdin=None, stdout=other, stderr=Log(), tty=False))
        await out.until("\n")
        await other.until("\n")
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        assert _gone(int(other.text))
        await running.stop(5)
        assert await awaited == 128 + signal.SIGKILL
        assert _gone(int(out.text))

    _run(tmp_path, scenario)


def test_disconnecting_the_client_ends_exec(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        async def broken(data: bytes) -> None:
            raise ConnectionResetError("gone")

        running = await runtime.start(sandbox("sleep", "100"), Log())
        with pytest.raises(ConnectionResetError):
            await running.exec(["yes"], stdin=None, stdout=broken, stderr=broken, tty=False)

    _run(tmp_path, scenario)


def test_exec_requires_permission_to_run_commands(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        running = await runtime.start(sandbox(image="server", ports=(8000,)), Log())
        err = Log()
        assert await running.exec(["id"], stdin=None, stdout=Log(), stderr=err, tty=False) == 126
        assert 'set commands = "run" for server to allow it' in err.text

    _run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no-such-program",), 'exec: "no-such-program": executable file not found in $PATH'),
        (("/no/such/program",), 'exec: "/no/such/program": no such file or directory'),
    ],
)
def test_a_missing_program_does_not_start(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        with pytest.raises(NotStarted) as caught:
            await runtime.start(sandbox(*words), Log())
        assert (caught.value.reason, str(caught.value)) == ("RunContainerError", message)
        assert list((tmp_path / "containers").iterdir()) == []
        running, err = await runtime.start(sandbox("sleep", "100"), Log()), Log()
        assert await running.exec(words, stdin=None, stdout=Log(), stderr=err, tty=False) == 127
        assert err.text == message + "\n"

    _run(tmp_path, scenario)


def test_a_missing_interpreter_is_reported_in_the_log(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        assert await (await runtime.start(sandbox(str(script)), log)).wait() == 127
        assert "No such file or directory" in log.text

    _run(tmp_path, scenario)


def test_an_invalid_argument_is_reported_in_the_log(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        running = await runtime.start(sandbox("echo", "never", env={"A": "a\0b"}), log)
        assert await running.wait() == 126
        assert log.text == 'exec: "echo": embedded null byte\n'

    _run(tmp_path, scenario)


def test_an_unlisted_image_does_not_start(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        with pytest.raises(NotStarted, match=r"add an \[\[image\]\]"):
            await runtime.start(sandbox("true", image="unknown"), Log())

    _run(tmp_path, scenario)


def test_close_ends_all_processes_and_removes_their_files(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        script = "trap '' TERM; echo $$; sleep 100"
        logs = [Log() for _ in range(3)]
        running = [await runtime.start(sandbox("sh", "-c", script), log) for log in logs]
        await asyncio.gather(*(log.until("\n") for log in logs))
        await runtime.close()
        assert [await each.wait() for each in running] == [128 + signal.SIGKILL] * 3
        assert all(_gone(int(log.text)) for log in logs)
        assert list((tmp_path / "containers").iterdir()) == []

    _run(tmp_path, scenario)


def test_a_killed_launcher_ends_its_command(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        log = Log()
        running = await runtime.start(sandbox("sh", "-c", "(setsid sleep 3 &); echo $$ $PPID; exec sleep 100"), log)
        await log.until("\n")
        command, launcher = map(int, log.text.split())
        os.kill(launcher, signal.SIGKILL)
        # Processes that left the session of the command cannot be killed; the runtime does not wait for their log.
        assert await running.wait() == 128 + signal.SIGKILL
        assert _gone(command)

    _run(tmp_path, scenario)
