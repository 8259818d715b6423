"""Files that are replaced atomically: one by one, as new files, and several at once, as by ``allot check --fix``.

It prints ``S name number`` before a file gets the content of a number, and ``A name number`` afterwards. After a power
cut, each file has the content of a number that is not before the acknowledged one.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from allotment.api.objects.file_writer import write_all
from allotment.files import atomic_write, private
from tests.power_cut.faults import plant

_ROUNDS: Final = 12


def main(folder: Path, fault: str) -> None:
    """Write the files in rounds."""
    plant(fault)
    folder = folder / "made" / "files"
    private.make_folder(folder)
    for number in range(_ROUNDS):
        _say("S", "state", number)
        atomic_write.replace(folder / "state", _content(number))
        _say("A", "state", number)
        _say("S", f"new-{number}", number)
        atomic_write.create(folder / f"new-{number}", _content(number))
        _say("A", f"new-{number}", number)
        several = {str(folder / name): _content(number).decode() for name in ("one", "two", "three")}
        before = {path: _content(number - 1).decode() for path in several}
        for path in map(Path, several):
            _say("S", path.name, number)
            if not number:
                atomic_write.replace(path, _content(number))
        if number:
            write_all(several, before)
        for path in map(Path, several):
            _say("A", path.name, number)


def _content(number: int) -> bytes:
    return f"{number}:{'text ' * (number * 700 % 3000)}\n".encode()


def _say(verb: str, name: str, number: int) -> None:
    os.write(1, f"{verb} {name} {number}\n".encode())


class FilesSubject:
    """The numbers that each file may have."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._acknowledged: dict[str, int] = defaultdict(lambda: -1)

    def printed(self, line: str) -> None:
        verb, name, number = line.split(" ")
        (self._sent if verb == "S" else self._acknowledged)[name] = int(number)

    def problem(self, folder: Path) -> str:
        for name, sent in self._sent.items():
            path, least = folder / "made" / "files" / name, self._acknowledged[name]
            if not path.exists():
                if least >= 0:
                    return f"{name} was written, and is gone"
                continue
            content = path.read_bytes()
            allowed = range(max(0, least), sent + 1)
            if content not in map(_content, allowed):
                return f"{name} has {content[:20]!r} and {len(content)} bytes, expected that of {allowed}"
        return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
