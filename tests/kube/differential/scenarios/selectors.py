"""Random device selectors: most check that an attribute exists before they read it."""

from __future__ import annotations

from tests.kube.differential.scenarios.generator import MODELS, ScenarioGenerator


def new_selector(generator: ScenarioGenerator, depth: int = 0) -> str:
    random = generator.random
    if depth < 2 and generator.chance(0.35):
        left, right = new_selector(generator, depth + 1), new_selector(generator, depth + 1)
        return random.choice([f"{left} && {right}", f"({left} || {right})", f"!({left})", f"({left} ? {right} : true)"])
    driver = random.choice(generator.drivers)
    attributes, capacity = f'device.attributes["{driver}"]', f'device.capacity["{driver}"]'
    model, cores, amount = random.choice(MODELS), random.choice([0, 2, 3]), random.choice(["10Gi", "20Gi", "5"])
    careful = [
        f'device.driver == "{driver}"', f'device.driver != "{driver}"', f'"model" in {attributes}',
        f"has({attributes}.model)", f'{attributes}.?model.orValue("b") == "{model}"',
        f'has({attributes}.cores) && {attributes}.cores > {cores}', "device.allowMultipleAllocations == true",
        f'device.driver == "{driver}" && {attributes}.model == "{model}"', f'"{driver}" in device.attributes',
        f'{attributes}.exists(k, k.startsWith("m"))', f"{attributes}.size() > 4", "true",
        f'{capacity}.?memory.hasValue()',
        f'has({capacity}.memory) && {capacity}.memory.isGreaterThan(quantity("{amount}"))',
        f'{attributes}.?firmware.orValue(semver("0.1.0")).isLessThan(semver("1.5.0"))',
        'device.attributes["example.org"].?lane.orValue("x") == "x"',
    ]  # fmt: skip
    careless = [
        f'{attributes}.model == "{model}"', f"{attributes}.cores > {cores}", f"{attributes}.healthy",
        f'{attributes}.firmware.compareTo(semver("1.2.0")) >= 0', f'{attributes}["model"].matches("^{model}$")',
        f'{capacity}.memory.compareTo(quantity("{amount}")) >= 0', f"10 / {attributes}.cores > 2",
        f'{attributes}.model in ["{model}", "c"]', f'{attributes}.model.lowerAscii() == "{model}"',
        f'{attributes}.cores == {cores} || {attributes}.model == "{model}"',
        f'device.attributes["resource.kubernetes.io"].numaNode == {random.choice([0, 1])}',
        f"{attributes}.all(k, k != 'x')", f"{capacity}.lanes.asInteger() >= 4",
        f'device.attributes["nobody.example.com"].model == "{model}"', f"{attributes}.firmware.major() > 0",
    ]  # fmt: skip
    return random.choice(careful if generator.chance(0.9) else careless)
