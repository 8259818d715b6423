"""Checks quotas of extended resources, which do not count every claim.

A claim is charged to its class, and to the old name only where the class carries that name (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.migrate.preflight.check import Check
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.views import mapping

_SUFFIX = ".deviceclass.resource.k8s.io/devices"


def check_quotas(facts: Facts) -> Iterator[Check]:
    """Report the quotas in the files that miss claims, and the keys to add."""
    classes = tuple(
        dict.fromkeys(name for one in facts.moving if one.decision.changes for name in one.decision.needs.classes)
    )
    if not classes:
        return
    served = {
        one.metadata.name
        for one in facts.migration.target.classes
        if one.spec.extended_resource_name and facts.migration.target.on("DRAExtendedResource")
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
                f" ({', '.join(counted)} also counts against the old name if its class serves that)" if counted else ""
            )
            text = (
                f"{document.position()}: {document.name} limits {', '.join(old)}. Claims are counted as "
                f"{', '.join(f'{name}{_SUFFIX}' for name in new)}{also}: add {'it' if len(new) == 1 else 'them'}."
            )
            yield Check(state="to do", title="quotas", text=text)
    if not found:
        yield Check(
            state="cannot tell",
            title="quotas",
            text=f"A ResourceQuota for requests.nvidia.com/gpu or similar counts claims under other keys: {keys}.",
            look="kubectl get resourcequota -A -o yaml | grep -E 'nvidia.com|amd.com|intel.com'",
            usual=True,
        )
