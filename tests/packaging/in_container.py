"""Replaces the image's ``allot`` where a lab runs containers as processes on this machine.

Such a process has ports of its own, ``PORT_8081`` for 8081, and must listen there; a real container listens on the
ports of its command line. If its folder has the single file of a release, ``allot.pyz``, this runs the file, and
imports nothing from the source tree.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ZIPAPP = Path("allot.pyz")


def with_own_port(word: str) -> str:
    """An argument of the command line, with this process's own port."""
    flag, _, address = word.partition("=")
    if not flag.endswith("-bind-address"):
        return word
    host, _, port = address.rpartition(":")
    return f"{flag}={host}:{os.environ[f'PORT_{port}']}"


if __name__ == "__main__":
    words = [with_own_port(word) for word in sys.argv[1:]]
    if ZIPAPP.exists():
        os.environ["SHIV_ROOT"] = str(Path("unpacked").absolute())  # the home folder is another one for each container
        os.execv(sys.executable, [sys.executable, str(ZIPAPP), *words])
    from allotment.cli.main import main

    sys.exit(main(words))
