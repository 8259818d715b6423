"""The checks of each level by version. The texts of violations are tested with the admission of pods."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.apiserver.pod_security.evaluation import violations
from allotment.apiserver.pod_security.levels import Level
from allotment.model.trees import Tree
from tests.admission_requests.pod_security import SAFE
from tests.admission_requests.request import container


def _found(level: str, minor: int | None, spec: Tree, kube: str = "1.37", annotations: Tree | None = None) -> list[str]:
    version = "latest" if minor is None else f"v1.{minor}"
    metadata: Tree = {"annotations": annotations} if annotations else {}
    return [item.reason for item in violations(Level(level, version), metadata, spec, kube)]


def _safe(**more: Any) -> Tree:
    return {"containers": [container(security=dict(SAFE))], **more}


def _with(field: str, value: Any) -> Tree:
    return {"containers": [container(security={**SAFE, field: value})]}


def _sysctl(name: str) -> Tree:
    return _safe(securityContext={"sysctls": [{"name": name, "value": "1"}]})


_WINDOWS: Tree = {"containers": [container(security={"runAsNonRoot": True})], "os": {"name": "windows"}}
_UNMASKED: Tree = {**_with("procMount", "Unmasked"), "hostUsers": False}
_ROOT: Tree = {**_with("runAsUser", 0), "hostUsers": False}
_PROBE: Tree = {"containers": [container(security=SAFE, livenessProbe={"tcpSocket": {"port": 1, "host": "h"}})]}


@pytest.mark.parametrize(
    ("level", "spec", "reason", "first", "last"),
    [
        ("restricted", _with("allowPrivilegeEscalation", None), "allowPrivilegeEscalation != false", 8, None),
        ("restricted", _with("capabilities", None), "unrestricted capabilities", 22, None),
        ("restricted", _with("seccompProfile", None), "seccompProfile", 19, None),
        ("restricted", _with("runAsNonRoot", None), "runAsNonRoot != true", 0, None),
        ("restricted", _with("runAsUser", 0), "runAsUser=0", 23, None),
        ("restricted", _WINDOWS, "unrestricted capabilities", 22, 24),
        ("restricted", _WINDOWS, "allowPrivilegeEscalation != false", 8, 24),
        ("restricted", _WINDOWS, "seccompProfile", 19, 24),
        ("restricted", _ROOT, "runAsUser=0", 23, 34),
        ("restricted", {**_with("runAsNonRoot", False), "hostUsers": False}, "runAsNonRoot != true", 0, 34),
        ("restricted", _UNMASKED, "procMount", 0, None),
        ("baseline", _UNMASKED, "procMount", 0, 34),
        ("baseline", _with("procMount", "Unmasked"), "procMount", 0, None),
        ("baseline", _with("seccompProfile", {"type": "Unconfined"}), "seccompProfile", 19, None),
        ("baseline", _with("seLinuxOptions", {"type": "container_engine_t"}), "seLinuxOptions", 0, 30),
        ("baseline", _with("seLinuxOptions", {"type": "spc_t"}), "seLinuxOptions", 0, None),
        ("baseline", _PROBE, "probe or lifecycle host", 34, None),
        ("baseline", _sysctl("net.ipv4.ip_local_reserved_ports"), "forbidden sysctls", 0, 26),
        ("baseline", _sysctl("net.ipv4.tcp_fin_timeout"), "forbidden sysctls", 0, 28),
        ("baseline", _sysctl("net.ipv4.tcp_rmem"), "forbidden sysctls", 0, 31),
        ("baseline", _sysctl("net.ipv4.tcp_notsent_lowat"), "forbidden sysctls", 0, 36),
        ("baseline", _sysctl("kernel.msgmax"), "forbidden sysctls", 0, None),
    ],
)
def test_a_check_applies_in_these_versions(level: str, spec: Tree, reason: str, first: int, last: int | None) -> None:
    newest = 37 if last is None else last
    for minor in range(38):
        expected = [reason] if first <= minor <= newest else []
        assert [found for found in _found(level, minor, spec) if found == reason] == expected, minor
    assert (reason in _found(level, None, spec)) == (last is None)


@pytest.mark.parametrize(
    ("annotations", "reasons"),
    [
        ({"seccomp.security.alpha.kubernetes.io/pod": "docker/default"}, []),
        ({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}, ["seccompProfile"]),
        ({"container.seccomp.security.alpha.kubernetes.io/main": "localhost/a.json"}, []),
        ({"container.seccomp.security.alpha.kubernetes.io/main": ""}, ["seccompProfile"]),
        ({"container.seccomp.security.alpha.kubernetes.io/unknown": "unconfined"}, []),
    ],
)
def test_old_versions_check_seccomp_annotations(annotations: Tree, reasons: list[str]) -> None:
    assert _found("baseline", 18, _safe(), annotations=annotations) == reasons
    assert _found("baseline", 19, _safe(), annotations=annotations) == []


@pytest.mark.parametrize(("value", "count"), [("runtime/default", 0), ("localhost/p", 0), ("", 0), ("unconfined", 1)])
def test_app_armor_annotations_are_checked_in_all_versions(value: str, count: int) -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/main": value}
    for minor in (0, 37):
        assert len(_found("baseline", minor, _safe(), annotations=annotations)) == count


def test_a_release_knows_no_later_versions() -> None:
    spec = _sysctl("net.ipv4.tcp_notsent_lowat")
    assert _found("baseline", None, spec, "1.36") == _found("baseline", 99, spec, "1.36") == ["forbidden sysctls"]
    assert _found("baseline", None, spec, "1.37") == _found("baseline", 99, spec, "1.37") == []


def test_privileged_forbids_nothing() -> None:
    assert _found("privileged", None, {"containers": [container(security={"privileged": True})]}) == []


def test_restricted_replaces_the_check_of_host_paths() -> None:
    spec = _safe(volumes=[{"name": "root", "hostPath": {"path": "/"}}])
    assert _found("baseline", None, spec) == ["hostPath volumes"]
    assert _found("restricted", None, spec) == ["restricted volume types"]
