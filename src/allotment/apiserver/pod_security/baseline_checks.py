"""The checks of the level baseline. A name ends with the first minor version of the policy if there are several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Final

from allotment.apiserver.pod_security.violations import (
    Check,
    Violation,
    containers,
    has_user_namespace,
    named,
    names_where,
    plural,
    quoted,
    security_context,
    setters,
)
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_CAPABILITIES: Final = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
     "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)  # fmt: skip
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS: Final = frozenset(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
     "net.ipv4.ip_unprivileged_port_start"}
)  # fmt: skip
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37: Final = _SYSCTLS_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}


def _forbidden_profiles(spec: Tree, field: str) -> tuple[list[str], list[str]]:
    """The parts of a pod whose profile is neither the runtime's nor a local one, and the types of these profiles."""
    types: set[str] = set()

    def is_bad(holder: Tree) -> bool:
        profile = security_context(holder).get(field)
        if profile is None or profile.get("type") in _PROFILES:
            return False
        types.add(profile.get("type") or "")
        return True

    return setters(pod=is_bad(spec), names=names_where(spec, is_bad)), sorted(types)


def _app_armor_profile(metadata: Tree, spec: Tree) -> Violation | None:
    bad, types = _forbidden_profiles(spec, "appArmorProfile")
    annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        bad.append(plural("annotation", annotations))
    if not bad:
        return None
    values = [*types, *annotations]
    detail = f"{' and '.join(bad)} must not set AppArmor profile type to {quoted(values)}"
    return Violation(plural("forbidden AppArmor profile", values), detail)


def _capabilities(metadata: Tree, spec: Tree) -> Violation | None:
    found: set[str] = set()

    def is_bad(container: Tree) -> bool:
        added = (security_context(container).get("capabilities") or {}).get("add") or ()
        bad = {name for name in added if name not in _CAPABILITIES}
        found.update(bad)
        return bool(bad)

    names = names_where(spec, is_bad)
    if not names:
        return None
    return Violation(
        "non-default capabilities",
        f"{named('container', names)} must not include {quoted(sorted(found))} in securityContext.capabilities.add",
    )


def _host_namespaces(metadata: Tree, spec: Tree) -> Violation | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_path_volumes(metadata: Tree, spec: Tree) -> Violation | None:
    names = [item.get("name") or "" for item in spec.get("volumes") or () if item.get("hostPath") is not None]
    return Violation("hostPath volumes", named("volume", names)) if names else None


def _host_ports(metadata: Tree, spec: Tree) -> Violation | None:
    found: set[str] = set()

    def is_bad(container: Tree) -> bool:
        ports = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        found.update(ports)
        return bool(ports)

    names = names_where(spec, is_bad)
    if not names:
        return None
    ports = sorted(found)
    verb = "uses" if len(names) == 1 else "use"
    return Violation("hostPort", f"{named('container', names)} {verb} {plural('hostPort', ports)} {', '.join(ports)}")


def _hosts_of_actions(container: Tree) -> Iterator[str]:
    """The hosts that probes and lifecycle handlers of a container name."""
    lifecycle = container.get("lifecycle") or {}
    actions = [container.get(probe) for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
    for action in (*actions, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for kind in ("httpGet", "tcpSocket"):
            host = ((action or {}).get(kind) or {}).get("host")
            if host:
                yield host


def _hosts_of_probes_34(metadata: Tree, spec: Tree) -> Violation | None:
    by_container = {container.get("name") or "": set(_hosts_of_actions(container)) for container in containers(spec)}
    names = sorted(name for name, hosts in by_container.items() if hosts)
    if not names:
        return None
    hosts = sorted(set().union(*by_container.values()))
    verb = "uses" if len(names) == 1 else "use"
    noun = plural("probe or lifecycle host", hosts)
    return Violation("probe or lifecycle host", f"{named('container', names)} {verb} {noun} {quoted(hosts)}")


def _privileged(metadata: Tree, spec: Tree) -> Violation | None:
    names = names_where(spec, lambda container: security_context(container).get("privileged") is True)
    if not names:
        return None
    return Violation("privileged", f"{named('container', names)} must not set securityContext.privileged=true")


def proc_mount(metadata: Tree, spec: Tree) -> Violation | None:
    """Forbid other masks of /proc than the default. From 1.35 on, this is a check of restricted."""
    found: set[str] = set()

    def is_bad(container: Tree) -> bool:
        mount = security_context(container).get("procMount")
        if mount in (None, "Default"):
            return False
        found.add(mount)
        return True

    names = names_where(spec, is_bad)
    if not names:
        return None
    detail = f"{named('container', names)} must not set securityContext.procMount to {quoted(sorted(found))}"
    return Violation("procMount", detail)


def _proc_mount_35(metadata: Tree, spec: Tree) -> Violation | None:
    return None if has_user_namespace(spec) else proc_mount(metadata, spec)


def _selinux_options(types: Set[str]) -> Check:
    def check(metadata: Tree, spec: Tree) -> Violation | None:
        bad_types: set[str] = set()
        set_fields: set[str] = set()

        def is_bad(holder: Tree) -> bool:
            options = security_context(holder).get("seLinuxOptions") or {}
            fields = {name for name in ("user", "role") if options.get(name)}
            set_fields.update(fields)
            selinux_type = options.get("type") or ""
            if selinux_type not in types:
                bad_types.add(selinux_type)
                return True
            return bool(fields)

        bad = setters(pod=is_bad(spec), names=names_where(spec, is_bad))
        if not bad:
            return None
        data = [named("type", sorted(bad_types))] if bad_types else []
        data += [f"{name} may not be set" for name in ("user", "role") if name in set_fields]
        detail = f"{' and '.join(bad)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", detail)

    return check


def _seccomp_annotations(metadata: Tree, spec: Tree) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{container.get('name') or ''}" for container in containers(spec))]
    found = sorted(
        {
            f"{key}={quote(annotations[key])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not found:
        return None
    return Violation("seccompProfile", f"forbidden {plural('annotation', found)} {', '.join(found)}")


def forbidden_seccomp_profiles(spec: Tree) -> Violation | None:
    """The violation of a pod that sets other seccomp profiles than the runtime's and local ones."""
    bad, types = _forbidden_profiles(spec, "seccompProfile")
    if not bad:
        return None
    detail = f"{' and '.join(bad)} must not set securityContext.seccompProfile.type to {quoted(types)}"
    return Violation("seccompProfile", detail)


def _sysctls(allowed: Set[str]) -> Check:
    def check(metadata: Tree, spec: Tree) -> Violation | None:
        names = [item.get("name") or "" for item in security_context(spec).get("sysctls") or ()]
        bad = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def _is_host_process(holder: Tree) -> bool:
    return (security_context(holder).get("windowsOptions") or {}).get("hostProcess") is True


def _windows_host_process(metadata: Tree, spec: Tree) -> Violation | None:
    bad = setters(pod=_is_host_process(spec), names=names_where(spec, _is_host_process))
    if not bad:
        return None
    detail = f"{' and '.join(bad)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)


_Versions = tuple[tuple[int, Callable[[Tree, Tree], Violation | None]], ...]

#: By name, in the order of messages: the check from each minor version on.
BASELINE_CHECKS: Final[dict[str, _Versions]] = {
    "appArmorProfile": ((0, _app_armor_profile),),
    "capabilities": ((0, _capabilities),),
    "hostNamespaces": ((0, _host_namespaces),),
    "hostPathVolumes": ((0, _host_path_volumes),),
    "hostPorts": ((0, _host_ports),),
    "hostProbes": ((34, _hosts_of_probes_34),),
    "privileged": ((0, _privileged),),
    "procMount": ((0, proc_mount), (35, _proc_mount_35)),
    "seLinuxOptions": (
        (0, _selinux_options(_SELINUX_TYPES)), (31, _selinux_options(_SELINUX_TYPES | {"container_engine_t"})),
    ),
    "seccompProfile": ((0, _seccomp_annotations), (19, lambda metadata, spec: forbidden_seccomp_profiles(spec))),
    "sysctls": (
        (0, _sysctls(_SYSCTLS)), (27, _sysctls(_SYSCTLS_27)), (29, _sysctls(_SYSCTLS_29)), (32, _sysctls(_SYSCTLS_32)),
        (37, _sysctls(_SYSCTLS_37)),
    ),
    "windowsHostProcess": ((0, _windows_host_process),),
}  # fmt: skip
