"""Authors of policies and bindings need the permission to read the parameters."""

from __future__ import annotations

import asyncio
from typing import Final

from allotment.model.trees import Tree
from tests.parameter_permissions import AUTHOR, REQUESTS, SETUP
from tests.unit.apiserver.served import Served

_USER: Final = "&{author 7 [developers system:authenticated] map[]}"
_KIND_FORBIDDEN: Final = (
    f'Forbidden: user {_USER} must have "get" permission on all objects of the referenced paramKind'
)
_ON_OBJECT: Final = "permission on the object referenced by paramRef"
_UNKNOWN: Final = (
    f'to determine minimum required permissions and user {_USER} does not have "get" permission for all groups, '
    "versions and resources"
)


async def answers(served: Served) -> list[Tree]:
    """The bodies of the answers to the requests."""
    for path, body in SETUP:
        response = await served.post(path, body)
        assert response.code == 201, response
    headers = {name.replace("-", "_"): value for name, value in AUTHOR.items()}
    found = []
    for index, (path, spec) in enumerate(REQUESTS):
        response = await served.post(path, {"metadata": {"name": f"new-{index}"}, "spec": spec}, **headers)
        found.append(dict(response.body))
    return found


def test_parameters_must_be_readable() -> None:
    async def scenario() -> None:
        served = Served()
        bodies = await answers(served)
        messages = [body.get("message", "").partition("is invalid: ")[2] for body in bodies]
        assert messages == [
            f"spec.paramKind: {_KIND_FORBIDDEN} (kind=ConfigMap, apiVersion=v1)",
            f"spec.paramKind: {_KIND_FORBIDDEN} (kind=Limit, apiVersion=example.com/v1)",
            "", "",
            f"spec.paramKind: {_KIND_FORBIDDEN} (kind=ConfigMap, apiVersion=v1)",
            f'spec.paramRef: Forbidden: user {_USER} does not have "get" {_ON_OBJECT}',
            f'spec.paramRef: Forbidden: user {_USER} does not have "list" {_ON_OBJECT}',
            f"spec.paramRef: Forbidden: unable to get policy missing {_UNKNOWN}",
            f"spec.paramRef: Forbidden: unable to resolve paramKind &{{example.com/v1 Limit}} {_UNKNOWN}",
            f'spec.paramRef: Forbidden: user get does not have "{_USER}" {_ON_OBJECT}',
        ]  # fmt: skip
        await served.store.close()

    asyncio.run(scenario())
