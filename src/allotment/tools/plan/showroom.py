"""One machine of each form of hardware, new and idle, to ask the engine what would fit on it.

Dozens of instance types have the same GPUs in the same mode; they publish the same devices, so one stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.cluster import Diagnoser
from allotment.engine.diagnosis.funnel import compiled
from allotment.engine.diagnosis.names import Published, published
from allotment.engine.refusal import Diagnosis, Refused
from allotment.engine.search.verdict import Solution
from allotment.fleet.catalog.instance import InstanceType, Template
from allotment.fleet.catalog.templates import template_of
from allotment.fleet.errors import FleetError
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from allotment.tools.plan.demand import Demand

#: Refusals that are about what a device is, and so the same however many there are of it.
OF_EACH: Final = frozenset(
    ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity", "driver-missing", "unknown-attribute",
     "unknown-driver", "type-mismatch", "capacity-read-as-attribute", "attribute-read-as-capacity")
)  # fmt: skip
#: What is allocated one after the other on a machine: the claims of each pod.
Asked = Sequence[tuple[ResourceClaim, ...]]


@dataclass(frozen=True, slots=True)
class Fits:
    """How many times the claims fit. ``devices``: of all times, by name.

    ``on_each``: so often on each GPU alone, and the devices are those of one; 0 where that was not asked.
    """

    times: int
    devices: tuple[str, ...]
    on_each: int = 0


class Showroom:
    """Machines by form, put up when they are first asked about."""

    def __init__(self, demand: Demand) -> None:
        self._kube = demand.features.kube
        self._inventory = Inventory.of(demand.features, classes=demand.classes.values(), taint_rules=demand.given.rules)
        self._allocator = Allocator(self._inventory)
        self._templates: dict[str, Template | None] = {}
        self._diagnoser: Diagnoser | None = None
        self._names: Published | None = None
        self._alone: dict[str, Refused] = {}

    def expect(self, singles: Iterable[tuple[InstanceType, str]]) -> None:
        """What will be asked about next. A misspelt name is held against the names that all of these publish."""
        forms = [form for instance, mode in singles if (form := self.single(instance, mode))]
        self._names = published(one for form in dict.fromkeys(forms) for one in self.template(form).slices)
        self._alone.clear()
        self._diagnoser = None

    def form(self, instance: InstanceType, mode: str) -> str:
        """The name of a type's form; empty if its GPUs do not have the mode."""
        form = f"{instance.hardware}/{mode}" if mode else instance.hardware
        if form not in self._templates:
            try:
                template = template_of(instance, mode, form, kube=self._kube)
            except FleetError:
                self._templates[form] = None
            else:
                self._templates[form] = template
                self._inventory.put_node(form, template.node.metadata.labels)
                for one in template.slices:
                    self._inventory.put_slice(one)
                self._diagnoser = None
        return form if self._templates[form] is not None else ""

    def single(self, instance: InstanceType, mode: str) -> str:
        """The form of a machine with one such GPU: whatever is wrong with its devices is so with each of many."""
        model = instance.accelerator
        if model is None or instance.gpus == 1:
            return self.form(instance, mode)
        name = model.aliases[0] if model.aliases else model.id
        return self.form(replace(instance, hardware=name, gpus=1), mode)

    def template(self, form: str) -> Template:
        """What stands there under a form's name."""
        found = self._templates[form]
        assert found is not None
        return found

    def fits(self, form: str, asked: Asked, most: int) -> Fits | None:
        """How often the claims of an item fit on an idle machine, at most ``most`` times; None if not once."""
        view = self._inventory.view(form)
        state = view.state(self._inventory.usage)
        names: list[str] = []
        for times in range(most):
            given: list[str] = []
            for claims in asked:
                work = self._allocator.work(claims)
                verdict = work.verdict_in(view, state)
                if not isinstance(verdict, Solution):
                    return Fits(times, tuple(names)) if times else None
                given += [view.records[slot].id.device for picks in verdict.picks for _, slot in picks]
                state = work.state_after(view, state, verdict)
            names += given
        return Fits(most, tuple(names)) if most else None

    def expressions(self, asked: Asked) -> list[str]:
        """The selectors of the claims and of the classes that they name."""
        classes = self._inventory.classes
        found: dict[str, None] = {}
        for _, one in self._requests(asked):
            class_ = classes.get(one.device_class_name)
            for selector in (*(class_.spec.selectors if class_ is not None else ()), *one.selectors):
                if selector.cel is not None:
                    found[selector.cel.expression] = None
        return list(found)

    def amounts(self, asked: Asked) -> list[Mapping[str, Quantity]]:
        """The capacities that the requests ask for."""
        return [one.capacity.requests for _, one in self._requests(asked) if one.capacity is not None]

    def _requests(self, asked: Asked) -> Iterator[tuple[ResourceClaim, ExactDeviceRequest | DeviceSubRequest]]:
        for claims in asked:
            for claim in claims:
                for request in claim.spec.devices.requests:
                    yield from ((claim, one) for one in (request.exactly, *request.first_available) if one is not None)

    def runtime_only(self, instance: InstanceType, mode: str, asked: Asked) -> str:
        """The first attribute that a claim's answer hangs on and that nobody knows before the machine runs."""
        template = self.template(self.single(instance, mode))
        for expression in self.expressions(asked):
            program = compiled(expression, self._inventory.features)
            for path in (program.reads or ()) if program is not None else ():
                name = f"{path[1]}/{path[2]}" if len(path) > 2 else ""
                if path[0] == "attributes" and (name in template.runtime_only or path[-1] in template.runtime_only):
                    return path[-1]
        for name in self._distinct(asked):
            bare = name.rpartition("/")[2]
            if {bare, name} & self.template(self.form(instance, mode)).unmeasured:
                return bare
        return ""

    def _distinct(self, asked: Asked) -> Iterator[str]:
        """The attributes that must differ."""
        for claims in asked:
            for claim in claims:
                for one in claim.spec.devices.constraints:
                    if one.distinct_attribute:
                        yield one.distinct_attribute

    def fits_type(self, instance: InstanceType, mode: str, asked: Asked, most: int) -> Fits | None:
        """How often claims fit on a type. GPUs that are cut or shared are alike, and so is what each of them holds."""
        if not mode or instance.gpus == 1:
            return self.fits(self.form(instance, mode), asked, most)
        one = self.fits(self.single(instance, mode), asked, most)
        if one is None:
            return self.fits(self.form(instance, mode), asked, most)
        return Fits(min(one.times * instance.gpus, most), one.devices, one.times)

    def why_not(self, instance: InstanceType, mode: str, asked: Asked) -> Refused:
        """What keeps claims from a type in a mode, although its GPUs have it.

        Most is wrong with each GPU alone, and then found on a machine with one of them, once for all types.
        """
        single = self.single(instance, mode)
        found = self._alone.get(single)
        if found is None and self.fits(single, asked, 1) is None:
            found = self._alone[single] = self._why(single, asked)
        if found is not None and found.code in OF_EACH:
            return found
        return self._why(self.form(instance, mode), asked)

    def _why(self, form: str, asked: Asked) -> Refused:
        """What keeps the first pod whose claims do not fit even alone; else all of them together."""
        if self._diagnoser is None:
            self._diagnoser = Diagnoser(self._inventory, tries=0, names=self._names)
        diagnosis = next(self._refusals(self._diagnoser, form, asked), None)
        if diagnosis is None:
            together = tuple(claim for claims in asked for claim in claims)
            diagnosis = self._diagnoser.diagnose(together, [form])
        return next((one.refused for one in diagnosis.nodes), diagnosis.headline)

    def _refusals(self, diagnoser: Diagnoser, form: str, asked: Asked) -> Iterator[Diagnosis]:
        for claims in asked:
            if claims and self.fits(form, [claims], 1) is None:
                yield diagnoser.diagnose(claims, [form])
