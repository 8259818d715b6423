"""Generates a whole random scenario."""

from __future__ import annotations

from tests.kube.differential.scenarios.claims import new_claim
from tests.kube.differential.scenarios.devices import new_class, new_rule
from tests.kube.differential.scenarios.generator import ScenarioGenerator
from tests.kube.differential.scenarios.nodes import new_node, node_selector
from tests.kube.differential.scenarios.pods import new_pod
from tests.kube.differential.scenarios.pools import new_pool
from tests.kube.differential.scenarios.scenario import Scenario


def new_scenario(generator: ScenarioGenerator) -> Scenario:
    """A scenario; the names of its objects start with the generator's name."""
    namespace = generator.namespace
    cluster = [new_node(generator, node) for node in generator.nodes]
    for driver in generator.drivers:
        for node in generator.nodes:
            if not generator.chance(0.1):
                cluster += new_pool(generator, driver, f"{generator.name}-{node[-2:]}", {"nodeName": node})
        if generator.chance(0.25):
            reach = {"allNodes": True} if generator.chance(0.5) else {"nodeSelector": node_selector(generator)}
            cluster += new_pool(generator, driver, f"{generator.name}-net", reach)
    cluster += [new_class(generator, class_) for class_ in generator.classes]
    if generator.chance(0.15):
        cluster.append(new_rule(generator))
    for number in range(generator.random.randint(1, 2)):
        cluster.append(new_claim(generator, "ResourceClaim", f"{generator.name}-shared{number}", namespace))
    for number in range(generator.random.randint(1, 3)):
        cluster.append(new_claim(generator, "ResourceClaimTemplate", f"{generator.name}-own{number}", namespace))
    claims = [item for item in cluster if item["kind"].startswith("ResourceClaim")]
    count = generator.random.randint(6, 10) if generator.crowded else generator.random.randint(2, 6)
    return Scenario(
        cluster, [new_pod(generator, f"{generator.name}-p{number}", namespace, claims) for number in range(count)]
    )
