"""Small clusters at random and pods that ask for their devices: what is played here.

Whatever an API server stores and a scheduler decides on may come: several drivers and kinds of pools, also broken ones,
partitions, shares, taints, constraints, alternatives, selectors that fail while they run. Devices of one driver are
alike enough that claims nearly fit. What 1.36 is known to decide wrongly does not come: several devices of one request
that must differ from others, too; attributes that are lists; counters where a taint or a constraint refuses a device;
pools of two drivers with the same name (it mixes up their counters); a pod that has a device plugin's resource and a
claim (it is told that "nil or empty request mappings" keep it from being bound); a DeviceTaintRule without
selector (its scheduler taints every device, its controller and 1.37 none).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from allotment.model.trees import Tree

#: The namespace of pods, and another where claims may have admin access; both are there.
NAMESPACE: Final = "plain"
PRIVILEGED: Final = "privileged"
DRIVERS: Final = ("gpu.example.com", "net.example.com", "fpga.test")
ZONES: Final = ("a", "b")
_GROUP: Final = "resource.k8s.io/v1"
_SHARED: Final = "example.org/lane"
_NUMA: Final = "resource.kubernetes.io/numaNode"
_TAINT: Final = {"key": "example.com/broken", "value": "yes"}
_MODELS: Final = ("a", "b")


class World(NamedTuple):
    """``cluster``: nodes, slices, classes, rules, shared claims, templates, in the order in which they are made;
    ``pods`` come one after the other."""

    cluster: list[Tree]
    pods: list[Tree]


def drawn(random: Random, name: str) -> World:
    """A world; the names of its objects begin with ``name``."""
    return _Drawing(random, name).world()


class _Drawing:
    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.name = name
        self.chance: Callable[[float], bool] = lambda part: random.random() < part
        self.drivers = random.sample(DRIVERS, random.choice([1, 1, 2, 3]))
        self.classes = [f"{name}-any", *(f"{name}-{driver.partition('.')[0]}" for driver in self.drivers)]
        self.shareable = random.random() < 0.3
        self.partitioned = random.random() < 0.3
        self.whole = random.random() < 0.5  # every device publishes everything, so that selectors do not fail
        self.nodes = [f"{name}-n{number}" for number in range(random.randint(2, 6))]
        self.extended = random.random() < 0.2
        self.plugged = self.extended and random.random() < 0.4  # some nodes have device plugins for the same
        self.crowded = random.random() < 0.3  # many pods that want little of a few nodes
        if self.crowded:
            self.nodes = self.nodes[: random.randint(1, 3)]

    def world(self) -> World:
        namespace = PRIVILEGED if self.chance(0.1) else NAMESPACE
        cluster = [*map(self.node, self.nodes)]
        for driver in self.drivers:
            for node in self.nodes:
                if not self.chance(0.1):
                    cluster += self.pool(driver, f"{self.name}-{node[-2:]}", {"nodeName": node})
            if self.chance(0.25):
                reach = {"allNodes": True} if self.chance(0.5) else {"nodeSelector": self.node_selector()}
                cluster += self.pool(driver, f"{self.name}-net", reach)
        cluster += [self.device_class(one) for one in self.classes]
        if self.chance(0.15) and not self.partitioned:
            cluster.append(self.rule())
        for number in range(self.random.randint(1, 2)):
            cluster.append(self.claim_object("ResourceClaim", f"{self.name}-shared{number}", namespace))
        for number in range(self.random.randint(1, 3)):
            cluster.append(self.claim_object("ResourceClaimTemplate", f"{self.name}-own{number}", namespace))
        claims = [one for one in cluster if one["kind"].startswith("ResourceClaim")]
        count = self.random.randint(6, 10) if self.crowded else self.random.randint(2, 6)
        return World(cluster, [self.pod(f"{self.name}-p{number}", namespace, claims) for number in range(count)])

    # --- the cluster -----------------------------------------------------------------------------------------------

    def node(self, name: str) -> Tree:
        labels = {"zone": self.random.choice(ZONES), "kubernetes.io/hostname": name}
        amounts = {
            "cpu": self.random.choice(["2", "8"]),
            "memory": "8Gi",
            "pods": self.random.choice(["2", "110", "110"]),
        }
        taints = [{"key": "example.com/ours", "effect": "NoSchedule"}] if self.chance(0.1) else []
        if self.plugged and self.chance(0.4):
            amounts[f"example.com/{self.random.choice(self.classes[1:])}"] = self.random.choice(["0", "1", "2"])
        tree: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                      "spec": {"taints": taints}, "status": {"allocatable": amounts, "capacity": amounts}}  # fmt: skip
        if self.chance(0.05):
            tree["spec"]["unschedulable"] = True
        return tree

    def node_selector(self) -> Tree:
        terms: list[Tree] = []
        for _ in range(self.random.choice([1, 1, 2])):
            if self.chance(0.3):
                field = {"key": "metadata.name", "operator": "In", "values": [self.random.choice(self.nodes)]}
                terms.append({"matchFields": [field]})
                continue
            operator = self.random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
            expression: Tree = {"key": self.random.choice(["zone", "zone", "other"]), "operator": operator}
            if operator.endswith("In"):
                expression["values"] = [self.random.choice(ZONES)]
            terms.append({"matchExpressions": [expression]})
        return {"nodeSelectorTerms": terms[:1]}  # slices allow one

    def pool(self, driver: str, name: str, reach: Tree) -> list[Tree]:
        """The slices of a pool, nearly always all of them and well made."""
        random, slices = self.random, []
        devices = [self.device(driver, number) for number in range(random.randint(1, 5))]
        specs: list[Tree] = []
        if self.partitioned and self.chance(0.6):
            sets, devices = self.partitions(driver, devices)
            specs.append({"sharedCounters": sets})
        if "nodeName" not in reach and self.chance(0.4):
            reach = {"perDeviceNodeSelection": True}
            for device in devices:
                device |= random.choice(
                    [
                        {"allNodes": True},
                        {"nodeName": random.choice(self.nodes)},
                        {"nodeSelector": self.node_selector()},
                    ]
                )
        cut = random.randint(0, len(devices)) if self.chance(0.25) else len(devices)
        specs += [{"devices": part} for part in (devices[:cut], devices[cut:]) if part]
        generation, count = random.choice([1, 1, 3]), len(specs)
        mishap = random.random()
        if mishap < 0.04:
            count += 1
        elif mishap < 0.06 and count > 1:
            count -= 1
        elif mishap < 0.09 and "devices" in specs[-1]:
            specs.append({"devices": [dict(specs[-1]["devices"][0])]})  # the name is there twice
            count += 1
        for number, spec in enumerate(specs):
            slices.append((f"{number}", generation, count, spec))
        if self.chance(0.08):
            old = [self.device(driver, number) for number in (0, 8)]
            slices.append(("old", generation - 1, 1, {"devices": [{**specs[-1]["devices"][0], **one} for one in old]}))
        return [
            {"apiVersion": _GROUP, "kind": "ResourceSlice",
             "metadata": {"name": f"{name}-{driver.partition('.')[0]}-{suffix}"},
             "spec": {"driver": driver, **reach, **spec,
                      "pool": {"name": f"{name}-{driver[:3]}", "generation": at, "resourceSliceCount": of}}}
            for suffix, at, of, spec in slices
        ]  # fmt: skip

    def device(self, driver: str, number: int) -> Tree:
        random = self.random
        attributes: Tree = {
            "model": {"string": random.choice(_MODELS)},
            "cores": {"int": random.choice([0, 2, 4])},
            "healthy": {"bool": not self.chance(0.2)},
            "firmware": {"version": random.choice(["1.0.0", "1.2.0", "2.0.0-rc.1"])},
            _NUMA: {"int": random.choice([0, 0, 1])},
            _SHARED: {"string": random.choice(["x", "x", "y"])},
        }
        if not self.whole:
            for key in list(attributes):
                if self.chance(0.15):
                    del attributes[key]
            if self.chance(0.1):
                attributes["model"] = random.choice([{"int": 1}, {"bool": True}, {"version": "1.0.0"}])
        if self.chance(0.1):
            attributes[f"{driver}/model"] = attributes.pop("model", {"string": "a"})
        memory: Tree = {"value": random.choice(["10Gi", "20Gi", "40Gi"])}
        capacity: Tree = {"memory": memory}
        if self.chance(0.4):
            capacity["lanes"] = {"value": random.choice(["4", "8"])}
        device: Tree = {"name": f"d{number}", "attributes": attributes, "capacity": capacity}
        if self.shareable and self.chance(0.7):
            device["allowMultipleAllocations"] = True
            if self.chance(0.6):
                memory["requestPolicy"] = random.choice(
                    [
                        {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}},
                        {"default": "4Gi", "validRange": {"min": "1Gi", "max": "8Gi"}},
                        {"default": "4Gi", "validValues": ["2Gi", "4Gi", "10Gi"]},
                        {"default": "1Gi"},
                    ]
                )
        if self.chance(0.1) and not self.partitioned:
            device["taints"] = [{**_TAINT, "effect": random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])}]
        if self.chance(0.05):
            device["bindsToNode"] = True
        return device

    def partitions(self, driver: str, cards: list[Tree]) -> tuple[list[Tree], list[Tree]]:
        """Cards cut into a whole, halves and a sliver, of counters that the card has; at times it has too few."""
        random = self.random
        sets, devices = [], []
        for number, card in enumerate(cards[:2]):
            counters = {"memory": {"value": random.choice(["40Gi", "40Gi", "30Gi"])}}
            if self.chance(0.5):
                counters["engines"] = {"value": "3"}
            name = f"{driver.partition('.')[0]}{number}"
            sets.append({"name": name, "counters": counters})
            for part, memory, engines in random.sample(
                [("whole", "40Gi", "3"), ("half0", "20Gi", "1"), ("half1", "20Gi", "1"), ("sliver", "5Gi", "0")], 3
            ):
                drawn_ = {"memory": {"value": memory}}
                if "engines" in counters:
                    drawn_["engines"] = {"value": engines}
                consumed = [{"counterSet": name, "counters": drawn_}]
                devices.append({**card, "name": f"{card['name']}-{part}", "consumesCounters": consumed})
        devices += cards[2:]
        random.shuffle(devices)
        return sets, devices

    def device_class(self, name: str) -> Tree:
        driver = next((one for one in self.drivers if name.endswith(f"-{one.partition('.')[0]}")), "")
        selectors = [f"device.driver == '{driver}'"] if driver else []
        if self.chance(0.06):
            selectors.append(self.selector())
        spec: Tree = {"selectors": [{"cel": {"expression": one}} for one in selectors]}
        if self.chance(0.2):
            spec["config"] = [self.config()]
        if self.extended and driver:
            spec["extendedResourceName"] = f"example.com/{name}"
        return {"apiVersion": _GROUP, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}

    def rule(self) -> Tree:
        selector: Tree = {}
        if self.chance(0.6):
            selector["driver"] = self.random.choice(self.drivers)
        if self.chance(0.6):
            selector["pool"] = f"{self.name}-{self.random.choice(self.nodes)[-2:]}-gpu"
        if self.chance(0.5):
            selector["device"] = self.random.choice(["d0", "d1"])
        effect = self.random.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"])
        spec = {"taint": {**_TAINT, "effect": effect}, "deviceSelector": selector}
        return {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule",
                "metadata": {"name": f"{self.name}-rule"}, "spec": spec}  # fmt: skip

    # --- claims ------------------------------------------------------------------------------------------------------

    def claim_object(self, kind: str, name: str, namespace: str) -> Tree:
        spec: Tree = {"devices": self.claim(namespace)}
        if kind == "ResourceClaimTemplate":
            spec = {"spec": spec}
        return {"apiVersion": _GROUP, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}

    def claim(self, namespace: str) -> Tree:
        random = self.random
        requests: list[Tree] = []
        names: list[str] = []
        for number in range(random.choice([1, 1, 1, 1, 2, 2, 3])):
            name = f"r{number}"
            names.append(name)
            if self.chance(0.25):
                subs = [{"name": f"s{at}", **self.request()} for at in range(random.randint(1, 3))]
                names += [f"{name}/{sub['name']}" for sub in subs]
                requests.append({"name": name, "firstAvailable": subs})
                continue
            exactly = self.request()
            if namespace == PRIVILEGED and self.chance(0.4):
                exactly["adminAccess"] = True
            requests.append({"name": name, "exactly": exactly})
        devices: Tree = {"requests": requests}
        constraints: list[Tree] = []
        for _ in range(0 if self.partitioned else random.choice([0, 0, 0, 0, 1, 1, 2])):
            attribute = random.choice([_NUMA, _SHARED, *(f"{driver}/model" for driver in self.drivers)])
            among = (
                {} if self.chance(0.4) else {"requests": sorted(random.sample(names, random.randint(1, len(names))))}
            )
            distinct = self.chance(0.4) and _few(requests)
            constraints.append({**among, "distinctAttribute" if distinct else "matchAttribute": attribute})
        if constraints:
            devices["constraints"] = constraints
        if self.chance(0.2):
            devices["config"] = [
                {**self.config(), **({"requests": sorted(random.sample(names, 1))} if self.chance(0.5) else {})}
                for _ in range(random.choice([1, 1, 2]))
            ]
        return devices

    def config(self) -> Tree:
        return {"opaque": {"driver": self.random.choice(self.drivers), "parameters": {"mode": self.random.random()}}}

    def request(self) -> Tree:
        random = self.random
        found: Tree = {"deviceClassName": random.choice(self.classes)}
        if self.chance(0.01):
            found["deviceClassName"] = f"{self.name}-nowhere"
        if self.chance(0.15 if self.crowded else 0.35):
            count = random.choice([1, 1, 1, 2])
            found["selectors"] = [{"cel": {"expression": self.selector()}} for _ in range(count)]
        if self.chance(0.12):
            found["allocationMode"] = "All"
        elif self.chance(0.4):
            found["count"] = random.choice([1, 2, 2, 2, 3])
        if self.chance(0.2):
            found["tolerations"] = [self.toleration()]
        if self.chance(0.5 if self.shareable else 0.1):
            key = random.choice(["memory", "memory", "memory", "lanes"])
            found["capacity"] = {"requests": {key: random.choice(["1", "2", "3Gi", "5Gi", "10Gi", "15Gi", "25Gi"])}}
        return found

    def toleration(self) -> Tree:
        random = self.random
        effect = random.choice([{"effect": "NoExecute"}, {"effect": "NoSchedule"}, {}])
        if self.chance(0.5):
            return {"key": _TAINT["key"], "operator": "Equal", "value": random.choice(["yes", "yes", "no"]), **effect}
        return {"operator": "Exists", **({"key": _TAINT["key"]} if self.chance(0.6) else {}), **effect}

    # --- selectors ---------------------------------------------------------------------------------------------------

    def selector(self, depth: int = 0) -> str:
        random = self.random
        if depth < 2 and self.chance(0.35):
            left, right = self.selector(depth + 1), self.selector(depth + 1)
            return random.choice(
                [f"{left} && {right}", f"({left} || {right})", f"!({left})", f"({left} ? {right} : true)"]
            )
        driver = random.choice(self.drivers)
        attributes, capacity = f'device.attributes["{driver}"]', f'device.capacity["{driver}"]'
        model, cores, amount = random.choice(_MODELS), random.choice([0, 2, 3]), random.choice(["10Gi", "20Gi", "5"])
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
        return random.choice(careful if self.chance(0.9) else careless)

    # --- pods --------------------------------------------------------------------------------------------------------

    def pod(self, name: str, namespace: str, claims: list[Tree]) -> Tree:
        random = self.random
        entries = []
        for number, claim in enumerate(
            random.sample(claims, min(len(claims), random.choice([1, 1, 1, 1, 1, 2, 2, 3])))
        ):
            field = "resourceClaimName" if claim["kind"] == "ResourceClaim" else "resourceClaimTemplateName"
            entries.append({"name": f"c{number}", field: claim["metadata"]["name"]})
        amounts: Tree = {"cpu": random.choice(["100m", "100m", "1500m"])}
        resources: Tree = {"requests": amounts}
        if self.extended and self.chance(0.5):
            entries = [] if self.plugged else entries[1:]
            wanted = {f"example.com/{random.choice(self.classes[1:])}": str(random.choice([1, 1, 2]))}
            resources = {"requests": {**amounts, **wanted}, "limits": wanted}
        spec: Tree = {
            "terminationGracePeriodSeconds": 0, "resourceClaims": entries,
            "containers": [{"name": "main", "image": "i", "resources": resources}],
        }  # fmt: skip
        if "limits" in resources and self.chance(0.5):
            self.more_containers(spec, resources)
        if self.chance(0.15):
            spec["nodeSelector"] = {"zone": random.choice(ZONES)}
        if self.chance(0.25 if self.crowded else 0.5):  # one node, so that chance does not decide
            required = {"nodeSelectorTerms": [_named(random.choice(self.nodes))]}
        elif self.chance(0.2):
            required = self.node_selector()
        else:
            required = {}
        if required:
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        selector = {"labelSelector": {"matchLabels": {"world": self.name}}}
        key = random.choice(["zone", "kubernetes.io/hostname"])
        if self.chance(0.08):
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector}
            ]
        if self.chance(0.08):
            kind = random.choice(["podAntiAffinity", "podAffinity"])
            terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **selector}]}
            spec.setdefault("affinity", {})[kind] = terms
        if self.chance(0.2):
            spec["tolerations"] = [{"key": "example.com/ours", "operator": "Exists"}]
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": {"world": self.name, "stays": random.choice(["ours", "theirs"])},
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def more_containers(self, spec: Tree, resources: Tree) -> None:
        """Others that want the same resource, before, beside and after."""
        for number in range(self.random.randint(1, 3)):
            limits = {name: str(self.random.choice([1, 1, 2, 3])) for name in resources["limits"]}
            container: Tree = {"name": f"more{number}", "image": "i", "resources": {"limits": limits}}
            kind = "containers" if self.chance(0.3) else "initContainers"
            if kind == "initContainers" and self.chance(0.3):
                container["restartPolicy"] = "Always"
            spec.setdefault(kind, []).append(container)


def _named(node: str) -> Tree:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def _few(requests: list[Tree]) -> bool:
    """Whether every request is for one device, or all together for two."""
    every = [one for request in requests for one in (request.get("firstAvailable") or [request["exactly"]])]
    counts = [3 if one.get("allocationMode") == "All" else one.get("count", 1) for one in every]
    return max(counts) == 1 or counts == [2]
