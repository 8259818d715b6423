"""Recorded cases that Allotment answers differently on purpose, with the reason. The score test keeps this list
exact."""

from __future__ import annotations

from collections.abc import Mapping

_NO_KEYS = "service account tokens are sealed with a secret of the lab's own: there is no public key to publish"
_NO_COMPONENTS = "component statuses (deprecated since 1.19) are not served: a lab is one process without components"

#: set -> file name -> case name -> the reason for the difference.
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "apiserver": {
        "10-discovery.jsonl.gz": {
            "10-discovery#3 GET /api/v1": _NO_COMPONENTS,
            "10-discovery#29 aggregated discovery v2 /api": _NO_COMPONENTS,
            "10-discovery#27 GET /openid/v1/jwks": _NO_KEYS,
            "10-discovery#28 GET /.well-known/openid-configuration": _NO_KEYS,
        },
        "25-tables.jsonl.gz": {
            "25-tables#24 Table /apis/coordination.k8s.io/v1/leases": (
                "the rows are leases of the recorded processes: a lab is one process and has no peers"
            ),
            "25-tables#27 Table /apis/rbac.authorization.k8s.io/v1/clusterroles?limit=2": (
                "a lab has the roles that its programs and users need, not those of features it does not have"
            ),
        },
        "28-protobuf-requests.jsonl.gz": {
            "28-protobuf-requests#18 who POST selfsubjectreviews": (
                "the recorder had a uid because it came with a token; a certificate gives none"
            )
        },
        "60-scheduler-flows.jsonl.gz": {
            "taint NoSchedule on T4 by rule": (
                "a defect of 1.36.2's scheduler, fixed in 1.36.3: it ignores DeviceTaintRules and places the pod"
            )
        },
    }
}
