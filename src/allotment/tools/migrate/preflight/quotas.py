"""Checks quotas of extended resources, which do not count every claim.

A claim counts against its class, and against the old name only if the class has that name (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.migrate.preflight.check import UNKNOWN, Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.views import mapping

_SUFFIX = ".deviceclass.resource.k8s.io/devices"


def check_quotas(facts: Facts) -> Iterator[Check]:
    """Report the quotas in the files that do not count claims, and the keys to add."""
    classes = tuple(
        dict.fromkeys(
            name for workload in facts.moving if workload.decision.changes for name in workload.decision.needs.classes
        )
    )
    if not classes:
        return
    served = {
        device_class.metadata.name
        for device_class in facts.migration.target.classes
        if device_class.spec.extended_resource_name and facts.migration.target.on("DRAExtendedResource")
    } | {"gpu.nvidia.com"}
    keys = ", ".join(f"{name}{_SUFFIX}" for name in classes)
    found = False
    for document in facts.migration.before:
        if document.kind != "ResourceQuota":
            continue
        hard = mapping(mapping(document.tree.get("spec")).get("hard"))
        old = [key for key in hard if vendor_of(key.removeprefix("requests."))]
        new = [name for name in classes if f"{name}{_SUFFIX}" not in hard]
        if old and new:
            found = True
            counted = [name for name in new if name in served]
            also = (
                f" (claims for {', '.join(counted)} also count against the old name if the class serves it)"
                if counted
                else ""
            )
            text = (
                f"{document.position()}: {document.name} limits {', '.join(old)}. Claims count against "
                f"{', '.join(f'{name}{_SUFFIX}' for name in new)}{also}: add "
                f"{'this key' if len(new) == 1 else 'these keys'} to the quota."
            )
            yield Check(state="to do", title="quotas", text=text)
    if not found:
        yield Check(
            state=UNKNOWN,
            title="quotas",
            text=(
                "A ResourceQuota for requests.nvidia.com/gpu or similar covers only claims of a class with that "
                f"extended resource name; all claims count against other keys: {keys}."
            ),
            look="kubectl get resourcequota -A -o yaml | grep -E 'nvidia.com|amd.com|intel.com'",
            routine=True,
        )
