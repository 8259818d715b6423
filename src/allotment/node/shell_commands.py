"""The simulated programs of a simulated container, such as ``sleep``, ``env`` and ``nvidia-smi``."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.node.device_view import ContainerDevice
from allotment.node.shell import Shell, Streams, whole

MEBIBYTE: Final = 2**20
_FOREVER: Final = 1e9
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


#: Runs a command that is not a simulated program: words, streams -> exit code.
Application = Callable[[Sequence[str], Streams], Awaitable[int]]


class ContainerView(NamedTuple):
    """The container as its programs see it. ``application``: set for the container's own command, not for exec.

    ``nodes``: paths of the device nodes that drivers requested. ``depth``: the number of nested shells.
    """

    hostname: str
    devices: tuple[ContainerDevice, ...]
    clock: Clock
    application: Application | None = None
    nodes: tuple[str, ...] = ()
    depth: int = 0


async def execute(
    words: list[str], environment: Mapping[str, str], streams: Streams, inside: ContainerView
) -> int | None:
    """Run a program by name, with or without a path, and return its exit code; None for an unknown program."""
    name = words[0].rpartition("/")[2]
    if name in ("sh", "bash", "ash", "dash"):
        return await _shell(words[1:], environment, streams, inside)
    if name == "sleep":
        return await _sleep(words[1:], streams, inside)
    if name in ("cat", "grep", "head", "tail", "wc", "tee"):
        return await _filter(name, words[1:], streams)
    if name in ("timeout", "exec", "nice", "nohup", "time", "sudo") and len(words) > 1:
        rest = words[2:] if name == "timeout" else words[1:]
        return await execute(rest, environment, streams, inside) if rest else 0
    if name in ("true", "false"):
        return int(name == "false")
    printed = _PRINTED.get(name)
    if printed is None:
        return None if inside.application is None else await inside.application(words, streams)
    text, code = printed(words[1:], environment, inside)
    if text:
        await (streams.err if code else streams.out)(text.encode())
    return code


async def _shell(
    arguments: Sequence[str], environment: Mapping[str, str], streams: Streams, inside: ContainerView
) -> int:
    async def within(words: list[str], variables: Mapping[str, str], given: Streams, depth: int) -> int | None:
        return await execute(words, variables, given, inside._replace(depth=depth + 1))

    shell = Shell(environment, within, inside.depth)
    text = next((arguments[i + 1] for i, a in enumerate(arguments[:-1]) if a[:1] == "-" and "c" in a), None)
    if text is not None:
        return await shell.run(text, streams)
    # Lines come from the terminal or a pipe, one after another.
    code, rest = 0, b""
    while data := await streams.read():
        *lines, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").strip()
            if words.split(" ")[0] == "exit":
                exit_code = whole(words[5:])
                return code if exit_code is None else exit_code & 255
            code = await shell.run(words, streams)
    return await shell.run(rest.decode(errors="replace"), streams) if rest.strip() else code


async def _sleep(arguments: Sequence[str], streams: Streams, inside: ContainerView) -> int:
    seconds = 0.0
    for argument in arguments:
        number, unit = (argument[:-1], argument[-1]) if argument[-1:] in _UNITS else (argument, "s")
        try:
            interval = _FOREVER if argument == "infinity" else float(number) * _UNITS[unit]
            if not interval >= 0:  # rejects "nan" too, which would break the order of all timers
                raise ValueError(argument)
            seconds += interval
        except ValueError:
            await streams.err(f"sleep: invalid time interval '{argument}'\n".encode())
            return 1
    if not arguments:
        await streams.err(b"sleep: missing operand\n")
        return 1
    await inside.clock.sleep(min(seconds, _FOREVER))
    return 0


async def _filter(name: str, arguments: list[str], streams: Streams) -> int:
    bare = [a for place, a in enumerate(arguments) if not a.startswith("-") and arguments[place - 1 : place] != ["-n"]]
    files = bare[int(name == "grep") :]
    if files and name != "tee":
        await streams.err(f"{name}: {files[0]}: No such file or directory\n".encode())
        return 1
    if name in ("cat", "tee"):
        while data := await streams.read():
            await streams.out(data)
        return 0
    lines = _lines(streams)
    if name == "wc":
        total = 0
        async for _ in lines:
            total += 1
        await streams.out(b"%d\n" % total)
        return 0
    if name == "grep":
        wanted, found = (bare[0] if bare else "").encode(), False
        async for line in lines:
            if wanted in line:
                found = True
                await streams.out(line)
        return int(not found)
    count = max(next((number for a in arguments if (number := whole(a.lstrip("-n"))) is not None), 10), 0)
    if name == "tail":
        kept: deque[bytes] = deque(maxlen=count)
        async for line in lines:
            kept.append(line)
        await streams.out(b"".join(kept))
        return 0
    while count and (line := await anext(lines, b"")):
        await streams.out(line)
        count -= 1
    return 0


async def _lines(streams: Streams) -> AsyncIterator[bytes]:
    """Yield the lines of the input."""
    rest = b""
    while data := await streams.read():
        *whole_lines, rest = (rest + data).split(b"\n")
        for line in whole_lines:
            yield line + b"\n"
    if rest:
        yield rest


Printed = tuple[str, int]
_Print = Callable[[Sequence[str], Mapping[str, str], ContainerView], Printed]


def _echo(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    bare = list(arguments)
    ending = "\n"
    while bare and bare[0] in ("-n", "-e"):
        ending = "" if bare.pop(0) == "-n" else ending
    return " ".join(bare) + ending, 0


def _env(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return "".join(f"{name}={value}\n" for name, value in environment.items()), 0


def _exported(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return "".join(f'declare -x {name}="{value}"\n' for name, value in sorted(environment.items())), 0


def _hostname(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return f"{inside.hostname}\n", 0


def _date(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return f"{inside.clock.moment():%a %b %e %H:%M:%S UTC %Y}\n", 0


def _ls(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    where = next((a for a in arguments if not a.startswith("-")), "/").rstrip("/")
    if not where:
        return "bin\ndev\netc\nhome\nproc\nroot\nsys\ntmp\nusr\nvar\n", 0
    paths = [*_BASIC_NODES, *(inside.nodes or _default_device_nodes(inside.devices))]
    names = {path.removeprefix(f"{where}/").partition("/")[0] for path in paths if path.startswith(f"{where}/")}
    if names or where in paths:
        return "".join(f"{name}\n" for name in sorted(names) or [where]), 0
    return f"ls: cannot access '{where}': No such file or directory\n", 2


_BASIC_NODES: Final = ("/dev/null", "/dev/urandom", "/dev/zero")


def _default_device_nodes(devices: Sequence[ContainerDevice]) -> list[str]:
    """The usual device nodes of devices whose driver reports none."""
    nvidia = [f"/dev/nvidia{i}" for i in range(sum("nvidia" in device.driver for device in devices))]
    amd = ["/dev/kfd", "/dev/dri"] if any("amd" in device.driver for device in devices) else []
    return [*amd, *nvidia, *(["/dev/nvidiactl"] if nvidia else [])]


def _whoami(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return "root\n", 0


def _id(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return "uid=0(root) gid=0(root) groups=0(root)\n", 0


def _pwd(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return "/\n", 0


def _seq(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    numbers = [number for a in arguments if (number := whole(a)) is not None]
    if not 0 < len(numbers) < 3:
        return "seq: expected one or two integers\n", 1
    first, last = (1, numbers[0]) if len(numbers) == 1 else numbers
    return "".join(f"{number}\n" for number in range(first, min(last, first + 9999) + 1)), 0


def _uname(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    return f"Linux {inside.hostname} simulated x86_64 GNU/Linux\n" if "-a" in arguments else "Linux\n", 0


def _nvidia_smi(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    """``-L`` lists the devices; ``--query-gpu=… --format=csv`` and the bare form print them as CSV."""
    # A GPU that is passed through to a virtual machine is not visible to the vendor's driver.
    devices = [device for device in inside.devices if "nvidia" in device.driver and device.kind != "vfio"]
    if not devices:
        return "No devices were found\n", 6
    whole = [device for device in devices if not device.profile]
    parts = [device for device in devices if device.profile]
    if "-L" in arguments or "--list-gpus" in arguments:
        lines = [f"GPU {i}: {d.product} (UUID: {d.uuid})" for i, d in enumerate(whole)]
        parents = list(dict.fromkeys(part.parent for part in parts))
        for parent in parents:
            siblings = [part for part in parts if part.parent == parent]
            lines.append(f"GPU {len(whole) + parents.index(parent)}: {siblings[0].product} (UUID: {parent})")
            lines += [f"  MIG {p.profile:<10} Device {i:>2}: (UUID: {p.uuid})" for i, p in enumerate(siblings)]
        return "".join(f"{line}\n" for line in lines), 0
    rows = "".join(f"{i}, {d.product}, {d.uuid}, {d.memory // MEBIBYTE} MiB\n" for i, d in enumerate(devices))
    return f"index, name, uuid, memory.total [MiB]\n{rows}", 0


def _rocm_smi(arguments: Sequence[str], environment: Mapping[str, str], inside: ContainerView) -> Printed:
    devices = [device for device in inside.devices if "amd" in device.driver and device.kind != "vfio"]
    if not devices:
        return "No AMD GPUs specified or found\n", 1
    lines = [f"GPU[{i}]\t\t: {d.product}\t{(d.share or d.memory) // MEBIBYTE} MiB" for i, d in enumerate(devices)]
    return "".join(f"{line}\n" for line in lines), 0


_PRINTED: Final[Mapping[str, _Print]] = {
    "echo": _echo, "printf": _echo, "env": _env, "printenv": _env, "export": _exported, "hostname": _hostname,
    "date": _date, "ls": _ls, "whoami": _whoami, "id": _id, "pwd": _pwd, "seq": _seq, "uname": _uname,
    "nvidia-smi": _nvidia_smi, "rocm-smi": _rocm_smi, "amd-smi": _rocm_smi,
}  # fmt: skip
