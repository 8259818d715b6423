"""The shell of a simulated container runs the commands of manifests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cluster.clock import Clock
from allotment.node.device_view import ContainerDevice
from allotment.node.shell import Streams
from allotment.node.shell_commands import ContainerView, execute
from allotment.node.shell_parser import ShellSyntaxError, parse

A100 = ContainerDevice("gpu.nvidia.com", "node-1", "gpu-0", "NVIDIA A100-SXM4-40GB", "GPU-11", 40 * 2**30, "", "")
SLICE = A100._replace(name="gpu-0-mig-1", uuid="MIG-22", profile="1g.5gb", parent="GPU-11")


class Ran(NamedTuple):
    code: int | None
    out: str
    err: str


def ran(*words: str, given: bytes = b"", devices: tuple[ContainerDevice, ...] = (), seconds: float = 55) -> Ran:
    out, err, rest = bytearray(), bytearray(), [given]

    async def to_out(data: bytes) -> None:
        out.extend(data)

    async def to_err(data: bytes) -> None:
        err.extend(data)

    async def read() -> bytes:
        data, rest[0] = rest[0], b""
        return data

    async def run() -> int | None:
        inside = ContainerView("train-0", devices, Clock(10_000))
        environment = {"A": "1", "NAME": "a b"}
        return await asyncio.wait_for(execute(list(words), environment, Streams(read, to_out, to_err), inside), seconds)

    return Ran(asyncio.run(run()), out.decode(), err.decode())


def test_a_cancelled_pipe_leaves_no_tasks() -> None:
    async def scenario() -> set[asyncio.Task[object]]:
        async def write(data: bytes) -> None: ...

        async def read() -> bytes:
            return b""

        text = "while true; do echo x; done | cat | sleep 100000"
        inside = ContainerView("train-0", (), Clock())
        task = asyncio.create_task(execute(["sh", "-c", text], {}, Streams(read, write, write), inside))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0.01)
        return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(scenario()) == set()


@pytest.mark.parametrize(
    ("text", "code", "out"),
    [
        ("echo hello", 0, "hello\n"),
        ("echo one; echo two", 0, "one\ntwo\n"),
        ("false || echo no", 0, "no\n"),
        ("false && echo no; echo $?", 0, "1\n"),
        ("exit 3; echo never", 3, ""),
        ("false; exit ²", 1, ""),
        (f"false; exit {'9' * 5000}", 1, ""),
        ("seq 3 | head -n 1", 0, "1\n"),
        ("while true; do echo x; done | head -n 2; echo $?", 0, "x\nx\n0\n"),
        ("while true; do echo x; done | grep x | cat | head -n 1", 0, "x\n"),
        ("while echo a; do sleep 1; done | true; echo after", 0, "after\n"),
        ("exit 3 | cat; echo $?", 0, "0\n"),
        ("sleep 100 | echo done", 0, "done\n"),
        ("seq 5000 | wc -l", 0, "5000\n"),
        ("seq 11 | head -n ² | wc -l", 0, "10\n"),
        ("seq 3 | tail -n 0", 0, ""),
        ("seq --5 2", 0, "1\n2\n"),
        ("X=5; echo $X ${X} '$X' \"$X\"", 0, "5 5 $X 5\n"),
        ("echo $NAME; echo \"$NAME\"", 0, "a b\na b\n"),
        ("echo ${MISSING:-other}$MISSING", 0, "other\n"),
        ("for i in 1 2 3; do echo n$i; done", 0, "n1\nn2\nn3\n"),
        ("for i in $(seq 2); do echo $i; done", 0, "1\n2\n"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", 0, "b\n"),
        ("until true; do echo never; done", 0, ""),
        ("while true; do echo once; exit 4; done", 4, "once\n"),
        ("while true; do echo once; break; done; echo after", 0, "once\nafter\n"),
        ("for i in 1 2; do if true; then continue; fi; echo never; done", 0, ""),
        ("(echo a; echo b) | grep b", 0, "b\n"),
        ("seq 5 | tail -n 2 | wc -l", 0, "2\n"),
        ("trap 'exit 0' TERM; sleep 9 & wait; echo after", 0, "after\n"),
        ("echo a > /tmp/file 2>&1; echo b", 0, "a\nb\n"),
        ("# nothing\necho x # more", 0, "x\n"),
        ("timeout 5 echo in time", 0, "in time\n"),
    ],
)  # fmt: skip
def test_commands_of_manifests_run(text: str, code: int, out: str) -> None:
    assert ran("bash", "-c", text) == Ran(code, out, "")


@pytest.mark.parametrize("time", ["nan", "-1", "soon"])
def test_an_invalid_time_is_not_slept(time: str) -> None:
    assert ran("sleep", time) == Ran(1, "", f"sleep: invalid time interval '{time}'\n")


def test_an_unknown_command_is_reported() -> None:
    assert ran("sh", "-c", "train.py --fast; echo $?") == Ran(0, "127\n", "sh: 1: train.py: not found\n")
    assert ran("train.py").code is None, "the container's own command is the application"


@pytest.mark.parametrize("text", ["echo 'open", "if true; then echo", "for i in 1; echo", "echo )", "&& echo", "$("])
def test_a_syntax_error_exits_with_two(text: str) -> None:
    ended = ran("sh", "-c", text)
    assert ended.code == 2
    assert ended.err.startswith("sh: ")


def test_lines_on_standard_input_are_commands() -> None:
    assert ran("sh", given=b"echo one\necho two\nexit 5\necho never\n") == Ran(5, "one\ntwo\n", "")


def test_vendor_tools_list_the_containers_devices() -> None:
    assert ran("nvidia-smi", "-L", devices=(A100,)).out == "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11)\n"
    shown = ran("nvidia-smi", "-L", devices=(SLICE,)).out
    assert shown.splitlines()[1].split() == ["MIG", "1g.5gb", "Device", "0:", "(UUID:", "MIG-22)"]
    assert ran("nvidia-smi").code == 6, "without a device the tool fails"
    assert "nvidia0" in ran("ls", "/dev", devices=(A100,)).out


@given(st.text(alphabet="echo $X'\"\\;&|(){}<>#\nifdothenwhile ", max_size=60))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(ShellSyntaxError):
        parse(text)


def test_deep_nesting_is_rejected() -> None:
    with pytest.raises(ShellSyntaxError):
        parse("(" * 5000)
