"""The shell of a simulated container runs the commands of manifests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cluster.clock import Clock
from allotment.node.container_files import ContainerFiles
from allotment.node.device_view import ContainerDevice
from allotment.node.programs.container_view import ContainerView, User, user_of
from allotment.node.programs.execution import execute
from allotment.node.programs.vendor_tools import default_device_nodes
from allotment.node.shell_language.parser import parse
from allotment.node.shell_language.process import NestingTooDeep, Process
from allotment.node.shell_language.streams import Input, Streams
from allotment.node.shell_language.syntax import NotSimulated, ShellSyntaxError

A100 = ContainerDevice("gpu.nvidia.com", "node-1", "gpu-0", "NVIDIA A100-SXM4-40GB", "GPU-11", 40 * 2**30, "", "")
SLICE = A100._replace(name="gpu-0-mig-1", uuid="MIG-22", profile="1g.5gb", parent="GPU-11")

ROOT = User()


class Ran(NamedTuple):
    code: int | None
    out: str
    err: str


def ran(
    *words: str, given: bytes = b"", devices: tuple[ContainerDevice, ...] = (), seconds: float = 55,
    user: User = ROOT,
) -> Ran:  # fmt: skip
    out, err, rest = bytearray(), bytearray(), [given]

    async def to_out(data: bytes) -> None:
        out.extend(data)

    async def to_err(data: bytes) -> None:
        err.extend(data)

    async def read() -> bytes:
        data, rest[0] = rest[0], b""
        return data

    async def run() -> int | None:
        inside = ContainerView("train-0", devices, Clock(10_000), user=user)
        environment = {"A": "1", "NAME": "a b"}
        streams = Streams(Input(read), to_out, to_err)
        files = ContainerFiles(nodes=default_device_nodes(devices))
        process = Process(list(words), environment, streams, files, "/tmp")
        try:
            return await asyncio.wait_for(execute(process, inside), seconds)
        except NestingTooDeep:
            return 2

    return Ran(asyncio.run(run()), out.decode(), err.decode())


def test_a_cancelled_pipe_leaves_no_tasks() -> None:
    async def scenario() -> set[asyncio.Task[object]]:
        async def write(data: bytes) -> None: ...

        async def read() -> bytes:
            return b""

        text = "while true; do echo x; done | cat | sleep 100000"
        inside = ContainerView("train-0", (), Clock())
        process = Process(["sh", "-c", text], {}, Streams(Input(read), write, write), ContainerFiles())
        task = asyncio.create_task(execute(process, inside))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0.01)
        return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(scenario()) == set()


@pytest.mark.parametrize(
    ("text", "code", "out"),
    [
        ("while true; do echo x; done | head -n 2; echo $?", 0, "x\nx\n0\n"),
        ("while true; do echo x; done | grep x | cat | head -n 1", 0, "x\n"),
        ("while echo a; do sleep 1; done | true; echo after", 0, "after\n"),
        ("trap 'exit 0' TERM; sleep 9 & wait; echo after", 0, "after\n"),
        ("sleep 100 & kill $!; wait $!; echo $?", 0, "143\n"),
        ("timeout 5 sleep 10; echo $?", 0, "124\n"),
        ("timeout 5 echo in time", 0, "in time\n"),
        ("id; id -u; whoami", 0, "uid=0(root) gid=0(root) groups=0(root)\n0\nroot\n"),
        ("hostname; cat /etc/hostname 2>&1", 1, "train-0\ncat: /etc/hostname: No such file or directory\n"),
        ("echo \"$NAME\"; sh -c 'echo $0 $A' me", 0, "a b\nme 1\n"),
        ("echo 'echo $1' > s; chmod +x s; ./s hi; sh s ho", 0, "hi\nho\n"),
    ],
)  # fmt: skip
def test_commands_of_manifests_run(text: str, code: int, out: str) -> None:
    assert ran("bash", "-c", text) == Ran(code, out, "")


@pytest.mark.parametrize("time", ["nan", "-1", "soon"])
def test_an_invalid_time_is_not_slept(time: str) -> None:
    assert ran("sleep", time) == Ran(1, "", f"sleep: invalid time interval '{time}'\n")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("train.py --fast", "train.py --fast"),
        ("grep -P x", "grep -P"),
        ("awk '{print $1}'", "awk {print $1}"),
        ("a=(1 2)", "arrays"),
        ("cat <(echo a)", "process substitution"),
        ("sed '/a/,/b/d'", "the sed script '/a/,/b/d'"),
        ("[ -O x ]", "test -O"),
        ("shopt -s nullglob", "shopt -s nullglob"),
        ("echo x >&3", "redirection 1>&3"),
        ("printf 'aa' | grep '\\(a\\)\\1'", "the regular expression (?:(a)\\1)"),
    ],
)
def test_what_is_not_understood_fails(text: str, what: str) -> None:
    """Success would be invented."""
    assert ran("sh", "-c", text) == Ran(127, "", f"not simulated: {what}\n")


def test_an_unknown_program_is_not_simulated() -> None:
    assert ran("sh", "-c", "train.py; echo $?") == Ran(0, "127\n", "not simulated: train.py\n")
    with pytest.raises(NotSimulated):
        ran("train.py")


def test_a_container_with_a_user_is_that_user() -> None:
    user = user_of(
        {"spec": {"securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000}}},
        {"securityContext": {"runAsUser": 2001}},
    )
    assert ran("sh", "-c", "id; id -u; whoami", user=user) == Ran(
        1, "uid=2001 gid=3000 groups=3000,2000\n2001\n", "whoami: cannot find name for user ID 2001\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "x=a; while true; do x=$x$x; done",
        "seq 99999 > f; cat f f f f > e; while true; do cat e >> g || exit 2; done",
        "f() { f; }; f",
        "echo 'sh s' > s; sh s",
        "while true; do sleep infinity & done",
        "printf '%99999999d'",
    ],
)
def test_no_script_takes_much_memory(text: str) -> None:
    assert ran("sh", "-c", text, seconds=20).code != 0


@pytest.mark.parametrize(
    "text",
    [
        "echo $((2**99999999))",
        "x=$(printf '%09999d' 1); echo ${x##*0*0*0*0*0*0*0*0*b} | wc -c",
        "printf '%09999d' 1 | grep -E '(0+)+b'; echo $?",
    ],
)
def test_no_expression_takes_long(text: str) -> None:
    assert ran("sh", "-c", text, seconds=2).code == 0


def test_the_shells_of_a_container_share_a_limit_of_background_commands() -> None:
    loop = "i=0; while [ $i -lt 150 ]; do sleep 99999999 & i=$((i+1)); done"
    result = ran("sh", "-c", f"{loop}; ({loop})")
    assert (result.code, "cannot fork" in result.err) == (2, True)


@pytest.mark.parametrize("text", ["echo 'open", "if true; then echo", "for i in 1; echo", "echo )", "&& echo", "$("])
def test_a_syntax_error_exits_with_two(text: str) -> None:
    ended = ran("sh", "-c", text)
    assert ended.code == 2
    assert ended.err.startswith("sh: ")


def test_lines_on_standard_input_are_commands() -> None:
    assert ran("sh", given=b"echo one\necho two\nexit 5\necho never\n") == Ran(5, "one\ntwo\n", "")
    assert ran("sh", given=b"for i in a b\ndo\necho $i\ndone\nread x\nhello\necho $x") == Ran(0, "a\nb\nhello\n", "")


def test_vendor_tools_list_the_containers_devices() -> None:
    assert ran("nvidia-smi", "-L", devices=(A100,)).out == "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11)\n"
    shown = ran("nvidia-smi", "-L", devices=(SLICE,)).out
    assert shown.splitlines()[1].split() == ["MIG", "1g.5gb", "Device", "0:", "(UUID:", "MIG-22)"]
    assert ran("nvidia-smi").code == 6, "without a device the tool fails"
    assert "nvidia0" in ran("ls", "/dev", devices=(A100,)).out


@given(st.text(alphabet="echo $X'\"\\;&|(){}<>#\nifdothenwhile ", max_size=60))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(ShellSyntaxError, NotSimulated):
        parse(text)


@pytest.mark.parametrize("start", ["(", "$(", "$((", "${a:-", "{ ", "if ", "! (", "f() {", '"$("', "case x in x) "])
def test_deep_nesting_is_rejected(start: str) -> None:
    with pytest.raises(ShellSyntaxError):
        parse(start * 5000)
    with pytest.raises(ShellSyntaxError):
        parse(f"echo {'$((' * 500}1{'))' * 500}")
