"""A whole world at random."""

from __future__ import annotations

from tests.kube.differing.worlds.claims import new_claim
from tests.kube.differing.worlds.devices import new_class, new_rule
from tests.kube.differing.worlds.drawing import Drawing
from tests.kube.differing.worlds.nodes import new_node, node_selector
from tests.kube.differing.worlds.pods import new_pod
from tests.kube.differing.worlds.pools import new_pool
from tests.kube.differing.worlds.world import World


def new_world(drawing: Drawing) -> World:
    """A world; the names of its objects begin with the drawing's."""
    namespace = drawing.namespace
    cluster = [new_node(drawing, node) for node in drawing.nodes]
    for driver in drawing.drivers:
        for node in drawing.nodes:
            if not drawing.chance(0.1):
                cluster += new_pool(drawing, driver, f"{drawing.name}-{node[-2:]}", {"nodeName": node})
        if drawing.chance(0.25):
            reach = {"allNodes": True} if drawing.chance(0.5) else {"nodeSelector": node_selector(drawing)}
            cluster += new_pool(drawing, driver, f"{drawing.name}-net", reach)
    cluster += [new_class(drawing, one) for one in drawing.classes]
    if drawing.chance(0.15):
        cluster.append(new_rule(drawing))
    for number in range(drawing.random.randint(1, 2)):
        cluster.append(new_claim(drawing, "ResourceClaim", f"{drawing.name}-shared{number}", namespace))
    for number in range(drawing.random.randint(1, 3)):
        cluster.append(new_claim(drawing, "ResourceClaimTemplate", f"{drawing.name}-own{number}", namespace))
    claims = [one for one in cluster if one["kind"].startswith("ResourceClaim")]
    count = drawing.random.randint(6, 10) if drawing.crowded else drawing.random.randint(2, 6)
    return World(cluster, [new_pod(drawing, f"{drawing.name}-p{number}", namespace, claims) for number in range(count)])
