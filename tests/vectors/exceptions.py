"""Recorded cases that Allotment answers differently on purpose, with the reason. The score test keeps this list
exact."""

from __future__ import annotations

from collections.abc import Mapping

_NO_KEYS = "service account tokens are sealed with a secret of the lab's own: there is no public key to publish"

#: set -> file name -> case name -> the reason for the difference.
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "allocator": {
        "137-table.jsonl.gz": {
            "consumable-capacity-requests-are-not-modified": (
                "upstream's test requests 10²¹, which Go prints as 1; the recording's request for 1 is rounded"
            ),
            "list-attributes-distinct-constaint-with-empty-or-unknown-type": (
                "upstream's test has an empty list, which JSON omits: in the recording the attribute has no value"
            ),
        }
    },
    "apiserver": {
        "10-discovery.jsonl.gz": {
            "10-discovery#27 GET /openid/v1/jwks": _NO_KEYS,
            "10-discovery#28 GET /.well-known/openid-configuration": _NO_KEYS,
        },
        "25-tables.jsonl.gz": {
            "25-tables#24 Table /apis/coordination.k8s.io/v1/leases": (
                "the rows are leases of the recorded processes: a lab is one process and has no peers"
            ),
            "25-tables#27 Table /apis/rbac.authorization.k8s.io/v1/clusterroles?limit=2": (
                "the number of other roles: the recorded server had its own, and those of two optional controllers"
            ),
        },
        "28-protobuf-requests.jsonl.gz": {
            "28-protobuf-requests#18 who POST selfsubjectreviews": (
                "the recorder had a uid because it came with a token; a certificate gives none"
            )
        },
        "137-60-scheduler-flows-p2.jsonl.gz": {
            "gang: devices for some, then a slice comes": (
                "the recording ends while Kubernetes' group is in its back-off; Allotment places the group immediately"
            )
        },
        "60-scheduler-flows.jsonl.gz": {
            "taint NoSchedule on T4 by rule": (
                "a defect of 1.36.2's scheduler, fixed in 1.36.3: it ignores DeviceTaintRules and places the pod"
            )
        },
    },
}
