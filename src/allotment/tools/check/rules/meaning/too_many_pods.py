"""M417: more pods on one claim than may use it."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.meta import ObjectKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import Target, named, targets
from allotment.tools.check.rule import Found, Rule

#: How many consumers a claim can be reserved for (ResourceClaimReservedForMaxSize).
_MOST = 256


def _find(bundle: Bundle) -> Iterator[Found]:
    users: dict[ObjectKey, list[Target]] = {}
    for target in targets(bundle):
        if target.entry.kind == "ResourceClaim":
            users.setdefault(target.key, []).append(target)
    for key, using in users.items():
        pods = sum(target.pod.replicas for target in using)
        if pods > _MOST:
            # Which of them come too late nobody can tell; the largest is where to look.
            most = max(using, key=lambda target: target.pod.replicas)
            others = "" if len(using) == 1 else f" of {named(most.pod)} and {len(using) - 1} more"
            yield Found(
                most.pod.document,
                most.entry.name_path,
                f"{pods} pods{others} name claim {key.name}, which at most {_MOST} can use at a time",
                help="the others stay pending until some of them have ended; use several claims",
            )


RULE = Rule(
    code="M417",
    name="too-many-pods",
    family="meaning",
    level="error",
    summary="more than 256 pods at once name one claim",
    why=(
        "Each pod that uses a claim is listed in its status.reservedFor, which holds 256 entries. Further pods stay "
        'pending ("resourceclaim in use") until one of the others has ended.'
    ),
    bad=examples.together(
        examples.claim("shared-gpu", class_name="gpu.example.com"),
        examples.deployment("server", "resourceClaimName: shared-gpu", 300),
    ),
    good=examples.together(
        examples.claim("shared-gpu", class_name="gpu.example.com"),
        examples.deployment("server", "resourceClaimName: shared-gpu", 256),
    ),
    find=_find,
    see="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/",
)
