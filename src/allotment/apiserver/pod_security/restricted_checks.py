"""The checks that the level restricted adds to those of baseline, some of which they replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from allotment.apiserver.pod_security.baseline_checks import forbidden_seccomp_profiles, proc_mount
from allotment.apiserver.pod_security.violations import (
    Check,
    Violation,
    has_user_namespace,
    is_windows,
    named,
    names_where,
    plural,
    quoted,
    security_context,
    setters,
)
from allotment.model.trees import Tree

_VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
     "secret"}
)  # fmt: skip


def _allow_privilege_escalation(metadata: Tree, spec: Tree) -> Violation | None:
    names = names_where(
        spec, lambda container: security_context(container).get("allowPrivilegeEscalation") is not False
    )
    if not names:
        return None
    detail = f"{named('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _capabilities(metadata: Tree, spec: Tree) -> Violation | None:
    found: set[str] = set()

    def is_adding(container: Tree) -> bool:
        added = (security_context(container).get("capabilities") or {}).get("add") or ()
        bad = {name for name in added if name != "NET_BIND_SERVICE"}
        found.update(bad)
        return bool(bad)

    def keeps_some(container: Tree) -> bool:
        return "ALL" not in ((security_context(container).get("capabilities") or {}).get("drop") or ())

    details: list[str] = []
    if missing := names_where(spec, keeps_some):
        details.append(f'{named("container", missing)} must set securityContext.capabilities.drop=["ALL"]')
    if adding := names_where(spec, is_adding):
        forbidden = quoted(sorted(found))
        details.append(f"{named('container', adding)} must not include {forbidden} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(metadata: Tree, spec: Tree) -> Violation | None:
    names: list[str] = []
    found: set[str] = set()
    for volume in spec.get("volumes") or ():
        sources = [key for key in volume if key != "name" and volume[key] is not None]
        if not _VOLUMES.intersection(sources):
            names.append(volume.get("name") or "")
            found.add(sources[0] if sources else "unknown")
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    noun = plural("restricted volume type", sorted(found))
    return Violation("restricted volume types", f"{named('volume', names)} {verb} {noun} {quoted(sorted(found))}")


def _run_as_non_root(metadata: Tree, spec: Tree) -> Violation | None:
    reason, of_pod = "runAsNonRoot != true", security_context(spec).get("runAsNonRoot")
    explicit = names_where(spec, lambda container: security_context(container).get("runAsNonRoot") is False)
    bad = setters(pod=of_pod is False, names=explicit)
    if bad:
        return Violation(reason, f"{' and '.join(bad)} must not set securityContext.runAsNonRoot=false")
    implicit = names_where(spec, lambda container: security_context(container).get("runAsNonRoot") is None)
    if of_pod is True or not implicit:
        return None
    return Violation(reason, f"pod or {named('container', implicit)} must set securityContext.runAsNonRoot=true")


def _run_as_user(metadata: Tree, spec: Tree) -> Violation | None:
    def is_root(holder: Tree) -> bool:
        return security_context(holder).get("runAsUser") == 0

    bad = setters(pod=is_root(spec), names=names_where(spec, is_root))
    return Violation("runAsUser=0", f"{' and '.join(bad)} must not set runAsUser=0") if bad else None


def _seccomp_profile(metadata: Tree, spec: Tree) -> Violation | None:
    if violation := forbidden_seccomp_profiles(spec):
        return violation
    if security_context(spec).get("seccompProfile") is not None:
        return None
    names = names_where(spec, lambda container: security_context(container).get("seccompProfile") is None)
    if not names:
        return None
    value = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {named('container', names)} must set {value}")


def _unless(is_exempt: Callable[[Tree], bool], check: Check) -> Check:
    return lambda metadata, spec: None if is_exempt(spec) else check(metadata, spec)


class RestrictedCheck(NamedTuple):
    """The check from each minor version on, and the baseline check that it replaces."""

    versions: tuple[tuple[int, Check], ...]
    replaces: str = ""


#: By name, in the order of messages.
RESTRICTED_CHECKS: Final[dict[str, RestrictedCheck]] = {
    "allowPrivilegeEscalation": RestrictedCheck(
        ((8, _allow_privilege_escalation), (25, _unless(is_windows, _allow_privilege_escalation)))
    ),
    "capabilities": RestrictedCheck(((22, _capabilities), (25, _unless(is_windows, _capabilities))), "capabilities"),
    "procMount": RestrictedCheck(((35, proc_mount),), "procMount"),
    "restrictedVolumes": RestrictedCheck(((0, _volumes),), "hostPathVolumes"),
    "runAsNonRoot": RestrictedCheck(((0, _run_as_non_root), (35, _unless(has_user_namespace, _run_as_non_root)))),
    "runAsUser": RestrictedCheck(((23, _run_as_user), (35, _unless(has_user_namespace, _run_as_user)))),
    "seccompProfile": RestrictedCheck(
        ((19, _seccomp_profile), (25, _unless(is_windows, _seccomp_profile))), "seccompProfile"
    ),
}
