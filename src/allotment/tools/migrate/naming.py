"""Names of new claims and templates: after the workload, or after what is asked where several workloads use one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.model.loading import Document
from allotment.tools.migrate.claim_plan import Plan, label
from allotment.tools.views import PodView, claim_view

_SUFFIX: Final = "-gpu"
_PRODUCT: Final = re.compile(r'\.productName == "([^"]+)"')


class Names:
    """Names that are free: those of claims and templates in the files are taken, and each is given once."""

    def __init__(self, documents: Iterable[Document], namespace: str) -> None:
        views = (claim_view(document, namespace) for document in documents)
        self._taken: set[tuple[str, str, str]] = {
            (view.kind, view.key.namespace, view.key.name) for view in views if view is not None
        }

    def give(self, kind: str, namespace: str, wanted: str) -> str:
        """The name, or with a number where it is taken."""
        number, name = 1, wanted
        while (kind, namespace, name) in self._taken:
            number += 1
            name = f"{wanted[:60]}-{number}"
        self._taken.add((kind, namespace, name))
        return name


def after_object(views: Iterable[PodView]) -> str:
    """After the object that makes all these pods, and the part of it where there is but one; empty for several."""
    listed = tuple(views)
    if len({(view.kind, view.key) for view in listed}) > 1:
        return ""
    parts = {view.part for view in listed}
    return after_workload(listed[0].key.name, parts.pop() if len(parts) == 1 else "")


def after_workload(workload: str, part: str = "") -> str:
    """``web`` -> ``web-gpu``, a DNS label.

    >>> after_workload("vllm.prod")
    'vllm-prod-gpu'
    """
    return label(f"{workload or 'pod'}-{part}")[: 63 - len(_SUFFIX)].rstrip("-") + _SUFFIX


def after_plan(plan: Plan) -> str:
    """After what is asked: ``nvidia-a100-sxm4-40gb-x8``, ``mig-1g-5gb``, ``gpu``."""
    parts = []
    for request in plan.requests:
        texts = [condition.expression for condition in request.kind.conditions]
        product = next((found[1] for text in texts if (found := _PRODUCT.search(text))), "")
        instead = next((c.instead_of for c in request.kind.conditions if "/mig-" in c.instead_of), "")
        what = label(instead.rpartition("/")[2]) if instead else label(product) if product else "gpu"
        parts.append(what + (f"-x{request.number}" if request.number > 1 else ""))
    return label("-".join(dict.fromkeys(parts)))
