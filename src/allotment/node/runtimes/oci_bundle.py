"""Builds the OCI configuration (``config.json``) of a container from a pod's manifest.

The root folder has tmpfs on ``/tmp``, ``/run`` and ``/var/tmp`` if the image has them; :mod:`.oci_root` mounts it. The
container has its own process, mount, host name, IPC and network namespaces. The network has only the loopback; to reach
a port, :mod:`.oci` enters the namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from allotment.cdi import oci
from allotment.model.trees import Tree
from allotment.node.runtimes.runtime import Sandbox

#: The default capabilities of containerd and Docker.
_CAPABILITIES: Final = tuple(
    f"CAP_{name}"
    for name in (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip
_MASKED: Final = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
)  # fmt: skip
_READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_IN_MEMORY: Final = ("/tmp", "/run", "/var/tmp")
_SYSTEM: Final = (
    ("/proc", "proc", ("nosuid", "noexec", "nodev")),
    ("/dev", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/pts", "devpts", ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")),
    ("/dev/shm", "tmpfs", ("nosuid", "noexec", "nodev", "mode=1777", "size=65536k")),
    ("/dev/mqueue", "mqueue", ("nosuid", "noexec", "nodev")),
    ("/sys", "sysfs", ("nosuid", "noexec", "nodev", "ro")),
)
#: Devices that every container has: null, zero, full, random, urandom, tty, ptmx, terminals.
_DEVICES: Final = ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (136, None))


def configuration(
    sandbox: Sandbox, words: Sequence[str], variables: Mapping[str, str], image: Path, root: Path, container: str
) -> Tree:
    """The ``config.json`` of a container. ``variables``: the image's; ``image``: its folder, which is mounted at
    ``root``. Raises InjectionError.
    """
    context = sandbox.spec.get("securityContext") or {}
    config: Tree = {
        "ociVersion": "1.0.2",
        "process": _process(sandbox, words, {**sandbox.environment, **variables}),
        "root": {"path": str(root), "readonly": context.get("readOnlyRootFilesystem") is True},
        "hostname": sandbox.pod["metadata"]["name"],
        "mounts": list(_mounts(sandbox, image)),
        "linux": {
            "cgroupsPath": f"/allotment-{container}",
            "namespaces": [{"type": each} for each in ("pid", "network", "ipc", "uts", "mount")],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
            "resources": {"devices": [{"allow": False, "access": "rwm"}, *_device_rules()]},
        },
    }
    return oci.apply(config, sandbox.edits)


def _process(sandbox: Sandbox, words: Sequence[str], environment: Mapping[str, str]) -> Tree:
    pod_context = sandbox.pod["spec"].get("securityContext") or {}
    context = {**pod_context, **(sandbox.spec.get("securityContext") or {})}
    capabilities = list(_CAPABILITIES)
    return {
        "terminal": False,
        "user": {"uid": context.get("runAsUser", 0), "gid": context.get("runAsGroup", 0)},
        "args": list(words),
        "env": [f"{name}={value}" for name, value in environment.items()],
        "cwd": sandbox.spec.get("workingDir") or "/",
        "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
        "noNewPrivileges": context.get("allowPrivilegeEscalation") is False,
    }


def _mounts(sandbox: Sandbox, image: Path) -> Iterator[Tree]:
    for destination, kind, flags in _SYSTEM:
        yield {"destination": destination, "type": kind, "source": kind, "options": list(flags)}
    for destination in _IN_MEMORY:
        if (image / destination.lstrip("/")).is_dir():
            options = ["nosuid", "nodev", "mode=1777"]
            yield {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": options}
    read_only = {mount["mountPath"] for mount in sandbox.spec.get("volumeMounts") or () if mount.get("readOnly")}
    for path, source in sorted(sandbox.mounts.items()):
        options = ["rbind", "ro" if path in read_only else "rw"]
        yield {"destination": path, "type": "bind", "source": str(source), "options": options}


def _device_rules() -> Iterator[Tree]:
    for major, minor in _DEVICES:
        rule: Tree = {"allow": True, "type": "c", "major": major, "access": "rwm"}
        yield rule if minor is None else {**rule, "minor": minor}
