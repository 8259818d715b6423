"""Names of Kubernetes' extensions of OpenAPI schemas, which say what JSON schemas cannot."""

from __future__ import annotations

from typing import Final

#: Fields that the schema does not list are kept.
PRESERVE_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
#: The value is an object of any kind, with apiVersion, kind and metadata.
EMBEDDED_RESOURCE: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
#: How lists and maps are merged: atomic, set or map; atomic or granular.
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"
