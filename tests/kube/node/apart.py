"""A machine of its own inside this one: whatever the node leaves behind goes with it, however it ends.

Processes, mounts and network are in namespaces that end with their first process; the host's folders that a node
writes to are covered by a temporary one. Only control groups are this machine's: those of the node are below a group
of its own, which is removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.waiting import wait_until

#: What is used to make the machine, beside what makes images and programs.
TOOLS: Final = ("unshare", "setpriv", "mount", "ip", "iptables", "runc")
ADDRESS: Final = "10.244.0.1"
#: The Service "kubernetes", by which pods find the API server.
SERVICE: Final = "10.96.0.1"
PLUGINS: Final = Path("/usr/lib/cni")
_GROUPS: Final = Path("/sys/fs/cgroup")
#: What a kubelet sets where it is otherwise. It holds for the whole machine, so that it sees it so already.
_SETTINGS: Final = {
    "vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}  # fmt: skip


def run_apart(module: str, words: Sequence[str], temporary: Path) -> int:
    """Run a module of ours as the first process of a machine of its own. Its exit status."""
    spaces = ("--mount", "--pid", "--net", "--ipc", "--uts", "--propagation", "private", "--mount-proc")
    # Whoever is killed takes the next along: us, unshare, and the first process with all others.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "--fork", "--kill-child=KILL"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run([*command, sys.executable, "-m", module, *words], env=environment, check=False).returncode


def furnish(folder: Path) -> None:
    """Inside: cover the host's folders, and bring up a network that ends here."""
    _run("mount", "--make-rshared", "/")  # as on every host: pods may ask for mounts that go both ways
    for path in ("/run", "/var/lib", "/var/log"):
        mine = folder / path.replace("/", "-").lstrip("-")
        mine.mkdir()
        _run("mount", "--bind", str(mine), path)
    for name, value in _SETTINGS.items():
        setting = folder / name.replace("/", "-")
        setting.write_text(f"{value}\n")
        _run("mount", "--bind", str(setting), f"/proc/sys/{name}")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "cni0", "type", "bridge")
    _run("ip", "address", "add", f"{ADDRESS}/24", "dev", "cni0")
    _run("ip", "link", "set", "cni0", "up")
    _run("ip", "route", "add", "default", "via", ADDRESS)  # to nowhere: programs only want to know their address
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def serve(port: int) -> None:
    """Inside: what kube-proxy would do for the Service of the API server."""
    for chain in ("PREROUTING", "OUTPUT"):
        match = ("-d", SERVICE, "-p", "tcp", "--dport", "443")
        _run("iptables", "-t", "nat", "-A", chain, *match, "-j", "DNAT", "--to-destination", f"{ADDRESS}:{port}")


@contextmanager
def groups(name: str) -> Iterator[None]:
    """A control group in every hierarchy, without members at the end, and then no more."""
    made = [root / name for root in _hierarchies()]
    try:
        for group in made:
            group.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty in a new group, and nothing may run there
                if (group / file).exists():
                    (group / file).write_text((group.parent / file).read_text())
        yield
    finally:
        for group in made:
            wait_until(partial(_removed, group), f"{group} is still used", 60)


def _hierarchies() -> list[Path]:
    if (_GROUPS / "cgroup.controllers").exists():
        return [_GROUPS]
    return sorted(path for path in _GROUPS.iterdir() if path.is_dir() and not path.is_symlink())


def _removed(group: Path) -> bool:
    """Remove a group and all below; False while something is running there."""
    try:
        for path, _, _ in os.walk(group, topdown=False):
            Path(path).rmdir()
    except OSError:
        return False
    return True


def lacking(programs: Sequence[str]) -> list[str]:
    """What this machine lacks for a node."""
    absent = [name for name in (*TOOLS, *programs) if shutil.which(name) is None]
    if not (PLUGINS / "bridge").exists():
        absent.append(f"{PLUGINS}/bridge (containernetworking-plugins)")
    if sys.platform != "linux" or os.geteuid() != 0:
        absent.append("Linux, as root")
    return absent


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
