"""Concurrent access reviews."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.permissions import missing
from allotment.model.trees import Tree
from allotment.permissions.access_reviews import access_requests
from allotment.permissions.components import COMPONENTS
from tests.unit.cluster import idle


class Refusing:
    """A cluster that rejects the first review immediately and the others later."""

    def __init__(self) -> None:
        self.open = 0

    async def create(self, resource: object, tree: Tree) -> Tree:
        self.open += 1
        try:
            for _ in range(self.open):
                await asyncio.sleep(0)
            raise StatusError(
                {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "reviews are forbidden"}
            )
        finally:
            self.open -= 1


def test_a_rejected_review_leaves_no_request_in_flight() -> None:
    async def scenario() -> int:
        client: Any = Refusing()
        with pytest.raises(StatusError):
            await missing(client, access_requests(COMPONENTS["reader"]), "somebody")
        return int(client.open)

    assert idle.run(scenario()) == 0
