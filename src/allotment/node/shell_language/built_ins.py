"""The commands of the shell itself, which change its state: ``cd``, ``set``, ``read``, ``test`` and the like."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from typing import Final

from allotment.node.container_files import Directory, absolute, failure
from allotment.node.shell_language.arithmetic import evaluate, whole
from allotment.node.shell_language.conditions import BadCondition, test
from allotment.node.shell_language.interpreter import BuiltIn, Shell
from allotment.node.shell_language.parser import is_name
from allotment.node.shell_language.process import MISUSED, NOT_FOUND, Exit, LoopControl, Process, Return, ShellFault
from allotment.node.shell_language.streams import Streams
from allotment.node.shell_language.syntax import NotSimulated

_LONG_OPTIONS: Final = {
    "errexit": "e", "nounset": "u", "xtrace": "x", "noglob": "f", "allexport": "a", "pipefail": "pipefail",
}  # fmt: skip
_SIGNALS: Final = frozenset({"EXIT", "HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "PIPE", "ERR", "DEBUG", "RETURN"})


async def _true(shell: Shell, words: list[str], streams: Streams) -> int:
    return 0


async def _false(shell: Shell, words: list[str], streams: Streams) -> int:
    return 1


def _code(shell: Shell, words: list[str]) -> int:
    if len(words) < 2:
        return shell.last
    code = whole(words[1])
    if code is None:
        raise ShellFault(f"{words[0]}: Illegal number: {words[1][:80]}")
    return code & 255


async def _exit(shell: Shell, words: list[str], streams: Streams) -> int:
    raise Exit(_code(shell, words))


async def _return(shell: Shell, words: list[str], streams: Streams) -> int:
    raise Return(_code(shell, words))


async def _loop_control(shell: Shell, words: list[str], streams: Streams) -> int:
    levels = whole(words[1]) if len(words) > 1 else 1
    if levels is None or levels < 1:
        raise ShellFault(f"{words[0]}: Illegal number: {words[1][:80]}")
    raise LoopControl(again=words[0] == "continue", levels=levels)


async def _export(shell: Shell, words: list[str], streams: Streams) -> int:
    rest = words[1:]
    removed = rest[:1] == ["-n"]
    if words[0] == "export" and (not rest or rest == ["-p"]):
        lines = (f'export {name}="{value}"\n' for name, value in sorted(shell.environment().items()))
        await streams.out("".join(lines).encode(errors="replace"))
        return 0
    for word in rest[int(removed) :]:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            raise NotSimulated(f"{words[0]} {word}")
        if not is_name(name):
            raise ShellFault(f"{words[0]}: {name}: bad variable name")
        if equals:
            shell.assign(name, value)
        if removed:
            shell.exported.discard(name)
        elif words[0] == "export":
            shell.exported.add(name)
        else:
            shell.read_only.add(name)
    return 0


async def _local(shell: Shell, words: list[str], streams: Streams) -> int:
    if words[0] == "local" and not shell.hidden:
        raise ShellFault("local: not in a function")
    exported = False
    for word in words[1:]:
        if word in ("-x", "-r", "-i"):
            exported = exported or word == "-x"
            continue
        if word.startswith("-"):
            raise NotSimulated(f"{words[0]} {word}")
        name, equals, value = word.partition("=")
        if shell.hidden:
            shell.hidden[-1].setdefault(name, shell.variables.get(name))
        if equals:
            shell.assign(name, value)
        elif shell.hidden:
            shell.variables.pop(name, None)
        if exported:
            shell.exported.add(name)
    return 0


async def _unset(shell: Shell, words: list[str], streams: Streams) -> int:
    functions = words[1:2] == ["-f"]
    for name in words[1 + int(words[1:2] in (["-f"], ["-v"])) :]:
        if name in shell.read_only and not functions:
            raise ShellFault(f"unset: {name}: is read only")
        if functions:
            shell.functions.pop(name, None)
        else:
            shell.variables.pop(name, None)
            shell.exported.discard(name)
    return 0


async def _set(shell: Shell, words: list[str], streams: Streams) -> int:
    rest = words[1:]
    if not rest:
        lines = (f"{name}='{value}'\n" for name, value in sorted(shell.variables.items()))
        await streams.out("".join(lines).encode(errors="replace"))
        return 0
    while rest:
        word = rest.pop(0)
        if word == "--":
            shell.arguments = rest
            return 0
        if word[:1] not in ("-", "+") or len(word) < 2:
            shell.arguments = [word, *rest]
            return 0
        if word.endswith("o"):
            if not rest or rest[0] not in _LONG_OPTIONS:
                raise NotSimulated(f"set {word} {''.join(rest[:1])}".rstrip())
            option = _LONG_OPTIONS[rest.pop(0)]
            (shell.options.add if word[0] == "-" else shell.options.discard)(option)
            word = word[:-1]
        shell.set_options(word)
    return 0


async def _shift(shell: Shell, words: list[str], streams: Streams) -> int:
    number = whole(words[1]) if len(words) > 1 else 1
    if number is None or not 0 <= number <= len(shell.arguments):
        raise ShellFault("shift: can't shift that many")
    shell.arguments = shell.arguments[number:]
    return 0


async def _cd(shell: Shell, words: list[str], streams: Streams) -> int:
    given = [word for word in words[1:] if word not in ("-P", "-L", "--")]
    target = given[0] if given else shell.variables.get("HOME", "/")
    target = shell.variables.get("OLDPWD", shell.directory) if target == "-" else target
    entry = await shell.files.find(target, shell.directory)
    if not isinstance(entry, Directory):
        raise failure(errno.ENOENT if entry is None else errno.ENOTDIR, target)
    shell.assign("OLDPWD", shell.directory)
    shell.directory = absolute(target, shell.directory)
    shell.assign("PWD", shell.directory)
    if given == ["-"]:
        await streams.out(f"{shell.directory}\n".encode(errors="replace"))
    return 0


async def _read(shell: Shell, words: list[str], streams: Streams) -> int:
    rest, raw = words[1:], False
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option not in ("-r", "-er"):
            raise NotSimulated(f"read {option}")
        raw = True
    line = (await streams.input.line()).decode(errors="replace")
    complete = line.endswith("\n")
    while not raw and line.endswith("\\\n"):
        line = line[:-2] + (await streams.input.line()).decode(errors="replace")
    text = line.removesuffix("\n").replace("\0", "")
    if not raw:
        text = text.replace("\\", "")
    blanks = shell.variables.get("IFS", " \t\n")
    names = rest or ["REPLY"]
    soft = "".join(letter for letter in blanks if letter in " \t\n")
    text = text.strip(soft) if soft and rest else text
    for place, name in enumerate(names):
        if place == len(names) - 1:
            shell.assign(name, text)
            break
        end = next((at for at, letter in enumerate(text) if letter in blanks), len(text))
        shell.assign(name, text[:end])
        text = text[end + 1 :].lstrip(soft) if soft else text[end + 1 :]
    return int(not complete)


async def _eval(shell: Shell, words: list[str], streams: Streams) -> int:
    return await shell.statement(" ".join(words[1:]), streams)


async def _source(shell: Shell, words: list[str], streams: Streams) -> int:
    if len(words) < 2:
        raise ShellFault(f"{words[0]}: filename argument required")
    text = (await shell.files.contents(words[1], shell.directory)).decode(errors="replace")
    return await shell.statement(text, streams)


async def _exec(shell: Shell, words: list[str], streams: Streams) -> int:
    if len(words) == 1:
        raise NotSimulated("exec with redirections")
    raise Exit(await shell.call(words[1:], streams, functions=False))


async def _trap(shell: Shell, words: list[str], streams: Streams) -> int:
    given = [word for word in words[1:] if word != "--"]
    if len(given) < 2:
        return 0
    action, *signals = given
    for signal in signals:
        name = {"0": "EXIT", "2": "INT", "15": "TERM"}.get(signal, signal.upper().removeprefix("SIG"))
        if name not in _SIGNALS and whole(name) is None:
            raise ShellFault(f"trap: {signal}: bad trap")
        if name in ("ERR", "DEBUG", "RETURN"):
            raise NotSimulated(f"trap for {name}")
        if action in ("", "-"):
            shell.traps.pop(name, None)
        else:
            shell.traps[name] = action
    return 0


async def _wait(shell: Shell, words: list[str], streams: Streams) -> int:
    if len(words) == 1:
        await asyncio.gather(*shell.background.values(), return_exceptions=True)
        shell.background.clear()
        return 0
    code = 0
    for word in words[1:]:
        task = shell.background.pop(whole(word) or 0, None)
        if task is None:
            code = NOT_FOUND
            continue
        await asyncio.wait([task])
        code = _TERMINATED if task.cancelled() else task.result()
    return code


_TERMINATED: Final = 143


async def _kill(shell: Shell, words: list[str], streams: Streams) -> int:
    code = 0
    checked = "-0" in words
    for word in words[1:]:
        if word.startswith("-"):
            continue
        task = shell.background.get(whole(word) or 0)
        if task is None and word == "1":
            raise NotSimulated("kill 1")
        if task is None or task.done():
            await streams.err(f"sh: kill: ({word}) - No such process\n".encode(errors="replace"))
            code = 1
        elif not checked:
            task.cancel()
    return code


async def _test(shell: Shell, words: list[str], streams: Streams) -> int:
    if words[0] == "[":
        if words[-1] != "]":
            await streams.err(b"sh: [: missing ]\n")
            return MISUSED
        words = words[:-1]
    try:
        return int(not await test(words[1:], shell.files, shell.directory))
    except BadCondition as error:
        await streams.err(f"sh: {words[0]}: {error}\n".encode(errors="replace"))
        return MISUSED


async def _let(shell: Shell, words: list[str], streams: Streams) -> int:
    value = 0
    for word in words[1:]:
        value = evaluate(word, shell.variables)
    return int(value == 0)


async def _command(shell: Shell, words: list[str], streams: Streams) -> int:
    rest = words[1:]
    if words[0] == "command" and rest and rest[0] not in ("-v", "-V"):
        rest = rest[1:] if rest[0] in ("-p", "--") else rest
        return await shell.call(rest, streams, functions=False)
    code = 0
    for name in rest[int(rest[:1] in (["-v"], ["-V"], ["-p"])) :]:
        if name in shell.functions or name in shell.built_ins:
            await streams.out(f"{name}\n".encode(errors="replace"))
        else:
            # The programs know which of them exist.
            found = Process(["which", name], {}, streams, shell.files, shell.directory, shell.depth)
            code = NOT_FOUND if await shell.execute(found) else code
    return code


async def _pwd(shell: Shell, words: list[str], streams: Streams) -> int:
    await streams.out(f"{shell.directory}\n".encode(errors="replace"))
    return 0


async def _umask(shell: Shell, words: list[str], streams: Streams) -> int:
    if len(words) == 1:
        await streams.out(b"0022\n")
    return 0


async def _ulimit(shell: Shell, words: list[str], streams: Streams) -> int:
    if not any(whole(word) is not None or word == "unlimited" for word in words[1:]):
        await streams.out(b"unlimited\n")
    return 0


async def _not_simulated(shell: Shell, words: list[str], streams: Streams) -> int:
    raise NotSimulated(" ".join(words)[:200])


BUILT_INS: Final[Mapping[str, BuiltIn]] = {
    ":": _true, "true": _true, "false": _false, "exit": _exit, "return": _return, "break": _loop_control,
    "continue": _loop_control, "export": _export, "readonly": _export, "local": _local, "declare": _local,
    "typeset": _local, "unset": _unset, "set": _set, "shift": _shift, "cd": _cd, "read": _read, "eval": _eval,
    ".": _source, "source": _source, "exec": _exec, "trap": _trap, "wait": _wait, "kill": _kill, "test": _test,
    "[": _test, "let": _let, "command": _command, "type": _command, "pwd": _pwd, "umask": _umask, "ulimit": _ulimit,
    "getopts": _not_simulated, "alias": _not_simulated, "shopt": _not_simulated, "mapfile": _not_simulated,
    "jobs": _not_simulated, "hash": _true,
}  # fmt: skip
