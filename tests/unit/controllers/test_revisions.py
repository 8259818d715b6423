"""ControllerRevisions hold the pod template as Kubernetes' controllers store it."""

from __future__ import annotations

import json

from allotment.cluster.resources import CONTROLLER_REVISIONS, STATEFUL_SETS
from allotment.controllers.stateful_sets import stateful_sets
from tests.unit.cluster import idle
from tests.unit.controllers.world import world


def test_the_data_of_a_revision_has_sorted_keys() -> None:
    template = {"metadata": {"labels": {"b": "1", "a": "2"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "serviceName": "s", "selector": {"matchLabels": {"a": "2"}}, "template": template}

    async def scenario() -> None:
        async with world(stateful_sets) as cluster:
            cluster.put(STATEFUL_SETS, {"metadata": {"name": "web", "generation": 1}, "spec": spec})
            await cluster.until(lambda: cluster.all(CONTROLLER_REVISIONS))
            [revision] = cluster.all(CONTROLLER_REVISIONS)
            assert json.dumps(revision["data"]) == json.dumps(revision["data"], sort_keys=True)
            assert revision["data"]["spec"]["template"] == {**template, "$patch": "replace"}

    idle.run(scenario())
