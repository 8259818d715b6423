"""``allot envtest``: creates the folder of programs that envtest starts, and prints what the tests need to find it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from allotment.api.objects.releases import release
from allotment.cli.live.lab_page import program
from allotment.cli.output.console import open_screen
from allotment.errors import InputError
from allotment.extras import require
from allotment.files import atomic_write
from allotment.model import DEFAULT_RELEASE
from allotment.model.releases import release_table

#: The first argument of a command line that runs one of the programs.
PROGRAM: Final = "__envtest"
#: The command of setup-envtest that creates the folder.
USE: Final = "use"
#: The variable in which envtest expects the folder.
VARIABLE: Final = "KUBEBUILDER_ASSETS"
_PROGRAMS: Final = ("etcd", "kube-apiserver")
#: Starts the first kubectl on the PATH that is not this file.
_KUBECTL: Final = """\
for folder in $(IFS=:; echo $PATH); do
  if [ -x "$folder/kubectl" ] && ! [ "$folder/kubectl" -ef "$0" ]; then
    exec "$folder/kubectl" "$@"
  fi
done
echo "kubectl: not found on the PATH" >&2
exit 127
"""
_ARCHITECTURES: Final = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}
#: The selectors of setup-envtest that name a release: ``1.36``, ``1.36.2``, ``~1.36.2``, ``1.36.x!``.
_SELECTOR: Final = re.compile(r"~?v?(1\.[0-9]+)(?:\.(?:[0-9]+|x|\*))?!?")
_LATEST: Final = frozenset({"", "latest", "latest-on-disk"})


def run(arguments: Namespace) -> int:
    """Create the folder and print it."""
    require("running a lab", "lab")
    if sys.platform == "win32":
        raise InputError("allot envtest: not available on Windows", "run the tests in WSL")
    folder = _folder(arguments.bin_dir, _release(arguments.selector))
    screen = open_screen()
    if arguments.print == "env":
        screen.line(f"export {VARIABLE}={shlex.quote(str(folder))}")
    else:
        screen.line(str(folder))
    return 0


def _release(words: Sequence[str]) -> str:
    """Return the release that the arguments of setup-envtest select."""
    if words and words[0] == USE:
        words = words[1:]
    if len(words) > 1:
        raise InputError(f"expected [{USE}] [VERSION], found {' '.join(words)!r}")
    text = words[0] if words else ""
    if text in _LATEST:
        return DEFAULT_RELEASE
    found = _SELECTOR.fullmatch(text)
    return release(found[1] if found else text)


def _folder(directory: str | None, kube: str) -> Path:
    """Create the programs where setup-envtest has those of a version, in a folder of their own. Raises OSError."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    root = Path(directory).absolute() if directory else data / "allotment" / "envtest"
    machine = _ARCHITECTURES.get(platform.machine(), platform.machine())
    version = release_table(kube).version.removeprefix("v")
    folder = root / "k8s" / f"{version}-allotment-{sys.platform}-{machine}"
    folder.mkdir(parents=True, exist_ok=True)
    # Modules in the directory of the tests must not replace those of Allotment.
    command = [sys.executable, "-P", *program(), PROGRAM]
    scripts = {name: f'exec {shlex.join([*command, name, kube])} "$@"\n' for name in _PROGRAMS}
    for name, script in {**scripts, "kubectl": _KUBECTL}.items():
        content = f"#!/bin/sh\n# Created by allot envtest.\n{script}".encode()
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            atomic_write.replace(path, content, mode=0o755)
    return folder
