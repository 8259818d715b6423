"""Isolates the node from the host: all that it leaves behind is removed when it ends, in whatever way.

Processes, mounts and network are in namespaces that end with their first process; the host's folders that a node writes
to are covered by a temporary one. Only control groups are the host's: those of the node are in a group of its own,
which is removed.
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

from tests.polling import wait_until

#: Tools that create the namespaces, in addition to those that build images and programs.
TOOLS: Final = ("unshare", "setpriv", "mount", "ip", "iptables", "runc")
ADDRESS: Final = "10.244.0.1"
#: The Service "kubernetes", through which pods reach the API server.
SERVICE: Final = "10.96.0.1"
PLUGINS: Final = Path("/usr/lib/cni")
_GROUPS: Final = Path("/sys/fs/cgroup")
#: Kernel settings that a kubelet changes if they differ. They hold for the whole host, so they are shown to it as set.
_SETTINGS: Final = {
    "vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}  # fmt: skip


def run_isolated(module: str, words: Sequence[str], temporary: Path) -> int:
    """Run one of the project's modules as the first process of new namespaces, and return its exit status."""
    spaces = ("--mount", "--pid", "--net", "--ipc", "--uts", "--propagation", "private", "--mount-proc")
    # When one process is killed, its child is killed as well: this one, unshare, and the first process with all others.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "--fork", "--kill-child=KILL"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run([*command, sys.executable, "-m", module, *words], env=environment, check=False).returncode


def set_up(folder: Path) -> None:
    """In the namespaces: cover the host's folders, and set up a network without an uplink."""
    _run("mount", "--make-rshared", "/")  # as on every host, because pods may request bidirectional mount propagation
    for path in ("/run", "/var/lib", "/var/log"):
        cover = folder / path.replace("/", "-").lstrip("-")
        cover.mkdir()
        _run("mount", "--bind", str(cover), path)
    for name, value in _SETTINGS.items():
        setting = folder / name.replace("/", "-")
        setting.write_text(f"{value}\n")
        _run("mount", "--bind", str(setting), f"/proc/sys/{name}")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "cni0", "type", "bridge")
    _run("ip", "address", "add", f"{ADDRESS}/24", "dev", "cni0")
    _run("ip", "link", "set", "cni0", "up")
    # a default route without a destination: programs only need it to find their own address
    _run("ip", "route", "add", "default", "via", ADDRESS)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def forward_service(port: int) -> None:
    """In the namespaces: forward the Service of the API server, as kube-proxy does."""
    for chain in ("PREROUTING", "OUTPUT"):
        match = ("-d", SERVICE, "-p", "tcp", "--dport", "443")
        _run("iptables", "-t", "nat", "-A", chain, *match, "-j", "DNAT", "--to-destination", f"{ADDRESS}:{port}")


@contextmanager
def control_group(name: str) -> Iterator[None]:
    """Create a control group in every hierarchy; at the end kill its processes and remove it."""
    created = [root / name for root in _hierarchies()]
    try:
        for group in created:
            group.mkdir()
            # cgroup v1: a new group has no CPUs and no memory nodes, so nothing could run in it
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (group / file).exists():
                    (group / file).write_text((group.parent / file).read_text())
        yield
    finally:
        for group in created:
            wait_until(partial(_remove, group), f"{group} is still in use", 60)


def _hierarchies() -> list[Path]:
    if (_GROUPS / "cgroup.controllers").exists():
        return [_GROUPS]
    return sorted(path for path in _GROUPS.iterdir() if path.is_dir() and not path.is_symlink())


def _remove(group: Path) -> bool:
    """Remove a group and its descendants; return False while processes run in it."""
    try:
        for path, _, _ in os.walk(group, topdown=False):
            Path(path).rmdir()
    except OSError:
        return False
    return True


def missing_requirements(programs: Sequence[str]) -> list[str]:
    """The requirements for a node that this machine lacks."""
    absent = [name for name in (*TOOLS, *programs) if shutil.which(name) is None]
    if not (PLUGINS / "bridge").exists():
        absent.append(f"{PLUGINS}/bridge (containernetworking-plugins)")
    if sys.platform != "linux" or os.geteuid() != 0:
        absent.append("Linux, as root")
    return absent


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
