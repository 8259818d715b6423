"""Programs about the container: its variables, user, host name and time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from allotment.node.programs.container_view import ContainerView, Program, options
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.syntax import NotSimulated

_FOREVER: Final = 1e9
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def interval(text: str) -> float | None:
    """Seconds of an interval such as ``1.5``, ``2m`` or ``infinity``; None if it is not one.

    >>> interval("2m"), interval("infinity") > 1e8, interval("nan"), interval("-1")
    (120.0, True, None, None)
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if text in ("infinity", "inf"):
        return _FOREVER
    if not re.fullmatch(r"\d{1,18}(\.\d*)?|\.\d+", number, re.ASCII):
        return None
    return min(float(number) * _UNITS[unit], _FOREVER)


async def _sleep(process: Process, inside: ContainerView) -> int:
    if len(process.words) < 2:
        return await process.fail("missing operand")
    seconds = 0.0
    for word in process.words[1:]:
        part = interval(word)
        if part is None:
            return await process.fail(f"invalid time interval '{word}'")
        seconds += part
    await inside.clock.sleep(min(seconds, _FOREVER))
    return 0


async def _printenv(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "0")
    if not given.operands:
        await process.print("".join(f"{name}={value}\n" for name, value in process.environment.items()))
        return 0
    missing = False
    for name in given.operands:
        value = process.environment.get(name)
        missing = missing or value is None
        await process.print("" if value is None else f"{value}\n")
    return int(missing)


async def _hostname(process: Process, inside: ContainerView) -> int:
    options(process.words, "sf")
    await process.print(f"{inside.hostname}\n")
    return 0


async def _date(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "uIR")
    if "I" in given or "R" in given:
        raise NotSimulated(" ".join(process.words))
    moment = inside.clock.moment()
    form = next((operand[1:] for operand in given.operands if operand.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    form = form.replace("%N", f"{moment.microsecond * 1000:09d}").replace("%s", str(int(moment.timestamp())))
    if set(re.findall("%(.)", form)) - set("aAbBcdDeFHIjmMnpSTtuwyYzZ%k"):
        raise NotSimulated(" ".join(process.words))
    await process.print(f"{moment.strftime(form)}\n")
    return 0


async def _whoami(process: Process, inside: ContainerView) -> int:
    uid = inside.user.uid
    if uid:
        return await process.fail(f"cannot find name for user ID {uid}")
    await process.print("root\n")
    return 0


async def _id(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "ugGn")
    uid, gid, groups = inside.user
    names = "n" in given
    if "u" in given or "g" in given:
        number = uid if "u" in given else gid
        if names and number:
            kind = "user" if "u" in given else "group"
            return await process.fail(f"cannot find name for {kind} ID {number}")
        await process.print(f"{'root' if names else number}\n")
    elif "G" in given:
        await process.print(" ".join("root" if names and not number else str(number) for number in groups) + "\n")
    else:
        listed = ",".join(_named(number) for number in groups or (gid,))
        await process.print(f"uid={_named(uid)} gid={_named(gid)} groups={listed}\n")
    return 0


def _named(number: int) -> str:
    return f"{number}(root)" if number == 0 else str(number)


async def _uname(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "asnrmovpi")
    fields = {
        "s": "Linux", "n": inside.hostname, "r": "simulated", "v": "#1 SMP", "m": "x86_64", "o": "GNU/Linux",
    }  # fmt: skip
    if "a" in given:
        await process.print(f"Linux {inside.hostname} simulated x86_64 GNU/Linux\n")
        return 0
    shown = [value for letter, value in fields.items() if letter in given] or ["Linux"]
    await process.print(" ".join(shown) + "\n")
    return 0


async def _nothing(process: Process, inside: ContainerView) -> int:
    return 0


SYSTEM_INFORMATION: Final[Mapping[str, Program]] = {
    "sleep": _sleep, "printenv": _printenv, "hostname": _hostname, "date": _date, "whoami": _whoami, "id": _id,
    "uname": _uname, "sync": _nothing, "clear": _nothing,
}  # fmt: skip
