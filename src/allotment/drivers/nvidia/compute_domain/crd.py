"""The CustomResourceDefinition of ComputeDomains, and its installation in a cluster."""

from __future__ import annotations

from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CUSTOM_KINDS
from allotment.drivers.nvidia.compute_domain.names import COMPUTE_DOMAINS, GROUP
from allotment.model.trees import Tree

#: The name of the CustomResourceDefinition.
DEFINITION: Final = f"{COMPUTE_DOMAINS.plural}.{GROUP}"

_STRING: Final[Tree] = {"type": "string"}
_STATES: Final[Tree] = {"type": "string", "enum": ["Ready", "NotReady"]}

_NODE: Final[Tree] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _STRING,
        "ipAddress": _STRING,
        "cliqueID": {**_STRING, "description": "NVLink domain and clique of the node's GPUs; empty without NVLink."},
        "index": {"type": "integer", "description": "The index of the node in its clique."},
        "status": {**_STATES, "description": "Whether the node's daemon is ready."},
    },
}

_SPEC: Final[Tree] = {
    "type": "object",
    "required": ["channel"],
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "A computeDomain.spec is immutable"}],
    "properties": {
        "numNodes": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "Deprecated. The number of nodes that must be ready for the domain to be ready.",
        },
        "channel": {
            "type": "object",
            "required": ["resourceClaimTemplate"],
            "properties": {
                "resourceClaimTemplate": {
                    "type": "object",
                    "required": ["name"],
                    "description": "The claim template that is created for the domain's workload.",
                    "properties": {"name": {**_STRING, "minLength": 1}},
                },
                "allocationMode": {
                    "type": "string",
                    "enum": ["Single", "All"],
                    "default": "Single",
                    "description": "Whether a container gets one channel or all channels of its node.",
                },
            },
        },
    },
}

_STATUS: Final[Tree] = {
    "type": "object",
    "properties": {
        "status": {**_STATES, "default": "NotReady"},
        "nodes": {
            "type": "array",
            "items": _NODE,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    },
}


def compute_domain_crd() -> Tree:
    resource = COMPUTE_DOMAINS
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    schema = {
        "type": "object",
        "description": "Connects the nodes of a workload over NVLink for the lifetime of the workload.",
        "required": ["spec"],
        "properties": {
            "apiVersion": _STRING,
            "kind": _STRING,
            "metadata": {"type": "object"},
            "spec": _SPEC,
            "status": _STATUS,
        },
    }
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Status", "type": "string", "jsonPath": ".status.status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    return {
        "apiVersion": CUSTOM_KINDS.api_version,
        "kind": CUSTOM_KINDS.kind,
        "metadata": {"name": DEFINITION},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


async def install(client: Client) -> None:
    """Create the CustomResourceDefinition, unless it exists."""
    try:
        await client.create(CUSTOM_KINDS, compute_domain_crd())
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
