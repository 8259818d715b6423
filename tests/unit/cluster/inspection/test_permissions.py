"""Questions of what may be done, asked side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.permissions import missing
from allotment.model.trees import Tree
from allotment.tools.permissions.access_reviews import access_requests
from allotment.tools.permissions.components import COMPONENTS
from tests.unit.cluster import idle


class Refusing:
    """A cluster that refuses the first question at once, and the others later."""

    def __init__(self) -> None:
        self.open = 0

    async def create(self, resource: object, tree: Tree) -> Tree:
        self.open += 1
        try:
            for _ in range(self.open):
                await asyncio.sleep(0)
            raise StatusError({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "you may not ask"})
        finally:
            self.open -= 1


def test_a_refused_question_leaves_none_under_way() -> None:
    async def asked() -> int:
        client: Any = Refusing()
        with pytest.raises(StatusError):
            await missing(client, access_requests(COMPONENTS["reader"]), "somebody")
        return int(client.open)

    assert idle.run(asked()) == 0
