"""A process in which the packages of extras cannot be imported; it runs commands of ``allot`` in forks of itself.

In a process of its own, each command takes half a second of CPU for starting Python and importing Allotment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import print_exc
from typing import IO, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]


class CommandOutput(NamedTuple):
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


class WithoutExtras:
    """The process, which runs one command after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def allot(self, words: Sequence[str], folder: Path) -> CommandOutput:
        """Run a command in a folder, which is its home and contains its kubeconfig."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([list(words), str(folder)]) + "\n")
        self._process.stdin.flush()
        return CommandOutput(*json.loads(self._process.stdout.readline()))


@contextmanager
def without_extras(modules: Sequence[str]) -> Iterator[WithoutExtras]:
    """Start the process without these modules; it ends with the context."""
    command = [sys.executable, "-m", "tests.unit.without_extras", *modules]
    with subprocess.Popen(
        command, cwd=ROOT, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield WithoutExtras(process)


def _serve(modules: Sequence[str]) -> None:
    sys.modules.update(dict.fromkeys(modules))  # type: ignore[arg-type]  # None: the import fails
    # What most commands import. Python runs no code of a command before the fork, so commands do not affect each other.
    import allotment.cluster.remote.http_client
    import allotment.explanation  # noqa: F401

    for line in sys.stdin:
        words, folder = json.loads(line)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = os.fork()
            if process == 0:
                _run(words, folder, out, err)
            _, status = os.waitpid(process, 0)
            for file in (out, err):
                file.seek(0)
            print(json.dumps([os.waitstatus_to_exitcode(status), out.read(), err.read()]), flush=True)  # noqa: T201


def _run(words: Sequence[str], folder: str, out: IO[str], err: IO[str]) -> NoReturn:
    from allotment.cli.main import main

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in ((1, out), (2, err)):
        os.dup2(file.fileno(), number)
    os.chdir(folder)
    os.environ |= {"HOME": folder, "KUBECONFIG": f"{folder}/config"}
    code: object = 1
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as Python does
        print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(str(code or 0)))


if __name__ == "__main__":
    _serve(sys.argv[1:])
