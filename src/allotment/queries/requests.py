"""The requests of programs. Their fields are the arguments of the Python API, in camelCase; manifests are texts.

A request never names a file: it is read where the server runs.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

#: The maximum number of pods in a request of ``would-fit``.
MOST_COPIES = 256
#: Seconds for which a server computes an answer to a program or visitor; then the request is rejected.
LONGEST_ANSWER = 45
#: The maximum time limit of ``plan`` for programs, in seconds: it searches twice, the second time for relaxations.
LONGEST_SEARCH = 20

Manifests: TypeAlias = Annotated[
    str, Meta(description="Kubernetes manifests, as YAML or JSON: the text itself, not the name of a file.")
]
Namespace: TypeAlias = Annotated[
    str, Meta(description="The namespace of the named object, and of manifests that state none.")
]


class Request(
    Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True
):  # fmt: skip
    """Base of all requests. A field that is omitted has its default."""


class WhyRequest(Request, frozen=True):
    """Which devices pods and claims get, or why they get none."""

    name: Annotated[
        str,
        Meta(
            description="A pod, claim or workload: `trainer-0`, `pod/trainer-0`, `claim/shared`, `deploy/llm`."
            " Without it, all pending pods and claims, or all those of the manifests."
        ),
    ] = ""
    namespace: Namespace = ""
    manifests: Manifests = ""


class FitRequest(Request, frozen=True):
    """Whether pods would get their devices: those of manifests, or a number of equal pods with these devices."""

    manifests: Manifests = ""
    namespace: Namespace = ""
    gpus: Annotated[int, Meta(ge=0, le=128, description="GPUs for each pod, if there are no manifests.")] = 0
    memory: Annotated[str, Meta(description="The advertised memory of each GPU, or more: `80GB`.")] = ""
    model: Annotated[str, Meta(description="The GPU's model: `A100`, `MI300X`.")] = ""
    vendor: Literal["", "nvidia", "amd", "any", "example"] = ""
    mig: Annotated[str, Meta(description="MIG devices of a profile, such as `1g.10gb`, instead of GPUs.")] = ""
    share: Annotated[str, Meta(description="A part of each GPU's memory: `10Gi` or `1/3`.")] = ""
    copies: Annotated[int, Meta(ge=1, le=MOST_COPIES, description="The number of equal pods.")] = 1


class FreeRequest(Request, frozen=True):
    """The devices of the cluster: which are free, and who uses the others."""

    tolerations: Annotated[
        tuple[str, ...],
        Meta(description="Devices on nodes with these taints count as free: `nvidia.com/gpu`, `team=ml:NoSchedule`."),
    ] = ()
    namespace: Namespace = ""
    manifests: Annotated[str, Meta(description="Slices and claims to add to the cluster, as YAML or JSON.")] = ""


class CheckRequest(Request, frozen=True):
    """The mistakes in manifests. With a cluster, also whether the workloads get their devices there."""

    manifests: Manifests = ""
    files: Annotated[
        dict[str, str],
        Meta(description="Several manifests that belong together: their texts by file name, for the positions."),
    ] = {}
    namespace: Namespace = ""
    select: Annotated[tuple[str, ...], Meta(description="Only rules with these codes: `S`, `V301`.")] = ()
    ignore: Annotated[tuple[str, ...], Meta(description="No rules with these codes.")] = ()
    drivers: Annotated[
        dict[str, str], Meta(description='Releases of drivers that are not the newest: `{"gpu.nvidia.com": "25.8"}`.')
    ] = {}


class FixRequest(CheckRequest, frozen=True):
    """The manifests with their mistakes fixed; nothing is written."""

    unsafe: Annotated[bool, Meta(description="Also apply fixes that guess what the author intended.")] = False


class PlanRequest(Request, frozen=True):
    """The cheapest machines for pods of manifests, or else for the pending pods of the cluster."""

    manifests: Manifests = ""
    namespace: Namespace = ""
    only: Annotated[str, Meta(description="Plan only for this object: a name, or `kind/name`.")] = ""
    catalog: Annotated[tuple[str, ...], Meta(description="Providers: `aws`, `gcp`, `azure`. By default all.")] = ()
    types: Annotated[tuple[str, ...], Meta(description="Only these instance types: `aws/g5.*`.")] = ()
    exclude_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_type: Literal["on-demand", "spot", "cheapest"] = "on-demand"
    max_spot: Annotated[str, Meta(description="The largest share of spot machines, if `cheapest`: `50%`.")] = ""
    budget: Annotated[str, Meta(description="The most that all machines may cost, in USD per hour.")] = ""
    max_machines: Annotated[int | None, Meta(description="The largest number of machines.")] = None
    max_per_type: Annotated[dict[str, int], Meta(description="The largest number of machines by pattern.")] = {}
    modes: Annotated[tuple[str, ...], Meta(description="The modes of GPUs to consider: `full`, `mig`.")] = ()
    time_limit: Annotated[
        float | None,
        Meta(description=f"Seconds to search for, at most {LONGEST_SEARCH}. By default a number of steps."),
    ] = None
    seed: int = 0
    compare: Annotated[bool, Meta(description="Also the cost under the rules of other autoscalers.")] = False


class CodeRequest(Request, frozen=True):
    """The code of which the meaning is requested."""

    code: Annotated[
        str,
        Meta(
            description="The reason of a refusal (`devices-in-use`), a rule of check (`M401`) or a check of doctor"
            " (`D301`)."
        ),
    ]
