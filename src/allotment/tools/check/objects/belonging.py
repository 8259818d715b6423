"""Which documents of a folder are for us: folders hold YAML and JSON of many programs.

A file that somebody names is meant. Of what merely lies in a folder, objects are (they have version and kind), and
pieces that speak of devices or GPUs; a workflow, a lock file or the settings of an editor are passed over in silence.
"""

from __future__ import annotations

import re
from typing import Any, Final

from allotment.model.loading import Document

#: Fields that nothing but Kubernetes' objects, and pieces of them, have.
_FIELDS: Final = frozenset({
    "deviceClassName", "resourceClaims", "resourceClaimName", "resourceClaimTemplateName", "matchAttribute",
    "firstAvailable", "allocationMode", "extendedResourceName", "cudaComputeCapability", "nvidiaDriverRoot",
    "gpuResourcesEnabledOverride", "devicePlugin",
})  # fmt: skip
#: Resources and labels of GPUs, and expressions on devices.
_WORDS: Final = re.compile(
    r"(?:^|\.)(?:nvidia\.com|amd\.com|intel\.com|habana\.ai)/|\bdevice\.(?:attributes|capacity|driver)\b"
)
_OBJECT: Final = re.compile(r"""^[\s\-{,]*["']?apiVersion["']?\s*:""", re.MULTILINE)
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def is_ours(document: Document) -> bool:
    """Whether a document that was found in a folder is to be looked at."""
    tree = document.tree
    return bool(document.api_version and document.kind) or _speaks_of_devices(tree)


def is_template(text: str) -> bool:
    """Whether a text is that of a template (Helm's, Jinja's), which is no YAML before it is rendered."""
    return _TEMPLATE.search(text) is not None


def is_object(text: str) -> bool:
    """Whether a text that cannot be read was to be a Kubernetes object."""
    return _OBJECT.search(text) is not None


def _speaks_of_devices(tree: Any) -> bool:
    level = [tree]
    while level:
        node = level.pop()
        if isinstance(node, dict):
            if not _FIELDS.isdisjoint(node) or any(isinstance(key, str) and _WORDS.search(key) for key in node):
                return True
            level.extend(node.values())
        elif isinstance(node, list):
            level.extend(node)
        elif isinstance(node, str) and _WORDS.search(node):
            return True
    return False
