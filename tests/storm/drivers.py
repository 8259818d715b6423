"""Kills a driver repeatedly while it prepares and unprepares claims, and checks the invariants after each restart.

``python -m tests.storm.drivers --cycles 200``. The storm is the kubelet: it repeats calls that got no answer, or
unprepares the claim. After every start, hardware, checkpoint and CDI specs must agree, and all answers must still hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.fleet.modes import DynamicMig
from allotment.kubelet_plugin.messages import ClaimRef, PrepareResult
from allotment.model.resource import Device
from allotment.model.trees import Tree
from tests.storm.driver_faults import FAULTS
from tests.storm.driver_process import NODE, machine, serve

_DRIVER = "gpu.nvidia.com"
_SHARING: tuple[Tree | None, ...] = (None, {"strategy": "TimeSlicing"}, {"strategy": "MPS"})
_ANSWER_SECONDS = 30.0


class InvariantViolated(AssertionError):
    """Raised when a device was lost or left behind, or an answer was wrong."""


class Outcome(NamedTuple):
    """The outcome of a storm. ``cut_off``: calls that got no answer."""

    kills: int
    answered: int
    cut_off: int


class _Claim:
    """A claim as the kubelet knows it. ``answer``: the answer to its preparation; None if there was none."""

    def __init__(self, ref: ClaimRef, devices: tuple[str, ...], tree: Tree, strategy: str) -> None:
        self.ref = ref
        self.devices = devices
        self.tree = tree
        self.strategy = strategy
        self.answer: PrepareResult | None = None
        self.uuids: frozenset[str] = frozenset()
        self.deleting = False


class Storm:
    """The kubelet, and the checks."""

    def __init__(self, folder: Path, seed: int, fault: str = "") -> None:
        self.folder = folder
        self.fault = fault
        self.random = Random(seed)
        self.hardware = machine(folder / "hardware")
        self.first = msgspec.to_builtins(self.hardware.snapshot().cards)
        (offer,) = asyncio.run(_offers())
        self.devices = {device.name: device for group in offer.groups for device in group}
        self.limits = {(s.name, name): c.value for s in offer.counter_sets for name, c in s.counters.items()}
        self.claims: dict[str, _Claim] = {}
        self.numbers = 0
        self.answered = self.cut_off = self.kills = 0
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["tests.storm.driver_process"])

    def run(self, cycles: int) -> Outcome:
        """Kill the driver this many times. Raises Broken."""
        while self.kills < cycles:
            self._run_once(last=False)
        self._run_once(last=True)
        return Outcome(self.kills, self.answered, self.cut_off)

    def _run_once(self, *, last: bool) -> None:
        near, far = self.context.Pipe()
        # Half of the kills are at a counted step, so that none is too short to be hit; half come from outside.
        die_at = 0 if last or self.random.random() < 0.5 else self.random.randint(1, 60)
        process = self.context.Process(target=serve, args=(far, self.folder, die_at, self.fault), daemon=True)
        process.start()
        far.close()
        try:
            self._expect(near, "ready")
            self._check()
            if last:
                self._unprepare_all(near)
                return
            for _ in range(self.random.randint(1, 6)):
                killer = None
                if not die_at and self.random.random() < 0.5:
                    killer = threading.Timer(self.random.uniform(0, 0.03), process.kill)
                    killer.start()
                try:
                    self._call(near)
                finally:
                    if killer is not None:
                        killer.join()
        except EOFError:
            pass
        finally:
            process.kill()
            process.join()
            near.close()
            self.kills += not last

    def _expect(self, pipe: Connection, what: str) -> None:
        if not pipe.poll(_ANSWER_SECONDS) or pipe.recv() != what:
            raise InvariantViolated(f"the driver was not {what} within {_ANSWER_SECONDS:g} s")

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, pipe: Connection) -> None:
        unanswered = [claim for claim in self.claims.values() if claim.answer is None and not claim.deleting]
        going = [claim for claim in self.claims.values() if claim.deleting]
        choice = self.random.random()
        if going and choice < 0.4:
            self._unprepare(pipe, going)
        elif unanswered and choice < 0.7:
            self._prepare(pipe, unanswered)
        elif self.claims and choice < 0.85:
            self._unprepare(pipe, self.random.sample(list(self.claims.values()), min(2, len(self.claims))))
        else:
            created = [claim for _ in range(self.random.randint(1, 3)) if (claim := self._new()) is not None]
            # Claims that were answered are prepared again, too, as by a kubelet that restarts.
            known = [claim for claim in self.claims.values() if claim.answer is not None and not claim.deleting]
            self._prepare(pipe, list({id(claim): claim for claim in (*created, *known[:1])}.values()))

    def _prepare(self, pipe: Connection, claims: Sequence[_Claim]) -> None:
        if not claims:
            return
        answers = self._answer(pipe, "prepare", claims)
        for claim in claims:
            answer = answers[claim.ref.uid]
            if answer.error:
                raise InvariantViolated(f"{claim.devices} could not be prepared: {answer.error}")
            if claim.answer not in (None, answer):
                raise InvariantViolated(f"the answer changed from {claim.answer} to {answer}")
            claim.answer = answer
            claim.uuids = self._uuids(claim)

    def _unprepare(self, pipe: Connection, claims: Sequence[_Claim]) -> None:
        for claim in claims:
            claim.deleting = True
        for uid, error in self._answer(pipe, "unprepare", claims).items():
            if error:
                raise InvariantViolated(f"claim {uid} could not be unprepared: {error}")
            del self.claims[uid]

    def _answer(self, pipe: Connection, verb: str, claims: Sequence[_Claim]) -> Any:
        try:
            pipe.send((verb, [claim.ref for claim in claims], [claim.tree for claim in claims]))
            if not pipe.poll(_ANSWER_SECONDS):
                raise InvariantViolated(f"no answer to {verb} within {_ANSWER_SECONDS:g} s")
            answer = pipe.recv()
        except (EOFError, OSError):
            self.cut_off += 1
            raise EOFError from None
        self.answered += 1
        return answer

    def _new(self) -> _Claim | None:
        """A claim for free devices, as a scheduler would allocate it."""
        chosen: list[str] = []
        kind = self.random.choice(("gpu", "mig", "mig"))
        for name in self.random.sample(sorted(self.devices), len(self.devices)):
            if (("-mig-" in name) == (kind == "mig")) and self._fits([*chosen, name]):
                chosen.append(name)
                if len(chosen) == 1 + (self.random.random() < 0.3):
                    break
        if not chosen:
            return None
        self.numbers += 1
        uid = f"00000000-0000-4000-8000-{self.numbers:012}"
        sharing = self.random.choice(_SHARING)
        kind = {"gpu": "GpuConfig", "mig": "MigDeviceConfig"}[kind]
        parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}
        config = {"source": "FromClaim", "opaque": {"driver": _DRIVER, "parameters": parameters}}
        results = [{"request": "r", "driver": _DRIVER, "pool": NODE, "device": name} for name in chosen]
        tree = {
            "metadata": {"namespace": "storm", "name": f"c{self.numbers}", "uid": uid},
            "spec": {},
            "status": {"allocation": {"devices": {"results": results, "config": [config] if sharing else []}}},
        }
        ref = ClaimRef("storm", uid, f"c{self.numbers}")
        claim = self.claims[uid] = _Claim(ref, tuple(chosen), tree, sharing["strategy"] if sharing else "")
        return claim

    def _fits(self, names: Sequence[str]) -> bool:
        used: Counter[tuple[str, str]] = Counter()
        for name in (*names, *(name for claim in self.claims.values() for name in claim.devices)):
            for consumed in self.devices[name].consumes_counters:
                for counter, amount in consumed.counters.items():
                    used[consumed.counter_set, counter] += amount.value.as_integer()
        return all(amount <= self.limits[key].as_integer() for key, amount in used.items())

    # --- invariants
    # -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """A driver has just started: nothing is incomplete, nothing is left over, and no answered claim is missing."""
        entries = json.loads((self.folder / "checkpoint.json").read_text())["claims"]
        _equal("entries that are not completed", {u for u, e in entries.items() if e["state"] != "completed"}, set())
        answered = {uid for uid, claim in self.claims.items() if claim.answer is not None and not claim.deleting}
        _equal("claims that were answered and are missing", answered - entries.keys(), set())
        _equal("entries of unknown claims", entries.keys() - self.claims.keys(), set())
        files = {path.name.removesuffix(".json").rpartition("_")[2] for path in (self.folder / "cdi").glob("*")}
        _equal("CDI files", files, set(entries))
        present = [self.claims[uid] for uid in entries]
        self._check_hardware(present)
        for claim in present:
            if claim.answer is not None and not claim.deleting and claim.uuids != self._uuids(claim):
                raise InvariantViolated(
                    f"the MIG devices of {claim.devices} changed: {claim.uuids} {self._uuids(claim)}"
                )

    def _check_hardware(self, claims: Sequence[_Claim]) -> None:
        state = self.hardware.snapshot()
        created = Counter((pci, i.profile_id, i.start) for pci, card in state.cards.items() for i in card.instances)
        expected = Counter(self._place(name) for claim in claims for name in claim.devices if "-mig-" in name)
        _equal("MIG devices", created, expected)
        daemons = sum(claim.strategy == "MPS" for claim in claims)
        _equal("MPS daemons", len(state.daemons), daemons)
        whole = {self._pci(n): claim.strategy for claim in claims for n in claim.devices if "-mig-" not in n}
        for pci, card in state.cards.items():
            # MIG devices are shared without the GPU's own compute mode.
            mode = "EXCLUSIVE_PROCESS" if whole.get(pci) == "MPS" else "DEFAULT"
            if not card.instances:
                _equal(f"compute mode of {pci}", card.mode, mode)
            _equal(f"MIG of {pci}", card.mig, bool(card.instances))

    def _uuids(self, claim: _Claim) -> frozenset[str]:
        places = {self._place(name) for name in claim.devices if "-mig-" in name}
        cards = self.hardware.snapshot().cards
        return frozenset(
            i.uuid for pci, c in cards.items() for i in c.instances if (pci, i.profile_id, i.start) in places
        )

    def _pci(self, device: str) -> str:
        return str(self.devices[device].attributes["resource.kubernetes.io/pciBusID"].string)

    def _place(self, device: str) -> tuple[str, int, int]:
        profile, start = device.rsplit("-", 2)[1:]
        return self._pci(device), int(profile), int(start)

    def _unprepare_all(self, pipe: Connection) -> None:
        """Unprepare everything at the end: the hardware is as at first, and every device can be prepared again."""
        self._unprepare(pipe, list(self.claims.values()))
        self._check()
        _equal("the hardware", msgspec.to_builtins(self.hardware.snapshot().cards), self.first)
        small = [name for name, device in self.devices.items() if _profile(device) == "1g.10gb"]
        for expected in ([name for name in self.devices if "-mig-" not in name], small):
            claims = [self._exactly(name) for name in expected]
            self._prepare(pipe, claims)
            self._check()
            self._unprepare(pipe, claims)
        self._check()
        _equal("the hardware", msgspec.to_builtins(self.hardware.snapshot().cards), self.first)

    def _exactly(self, name: str) -> _Claim:
        self.numbers += 1
        uid = f"00000000-0000-4000-8000-{self.numbers:012}"
        result = {"request": "r", "driver": _DRIVER, "pool": NODE, "device": name}
        tree = {
            "metadata": {"namespace": "storm", "name": f"c{self.numbers}", "uid": uid},
            "spec": {},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        claim = self.claims[uid] = _Claim(ClaimRef("storm", uid, f"c{self.numbers}"), (name,), tree, "")
        return claim


async def _offers() -> Any:
    return await NvidiaDriver(machine(None), DynamicMig()).discover()


def _profile(device: Device) -> str:
    profile = device.attributes.get("profile")
    return str(profile.string) if profile is not None else ""


def _equal(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise InvariantViolated(f"{what}: found {found}, expected {wanted}")


def main() -> int:
    """Run a storm and print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.drivers", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200, help="how often the driver is killed (%(default)s)")
    parser.add_argument("--seed", type=int, default=Random().getrandbits(32), help="random seed")
    parser.add_argument("--fault", choices=list(FAULTS), default="", help="plant a fault, which must be noticed")
    arguments = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="al-") as folder:
        try:
            outcome = Storm(Path(folder), arguments.seed, arguments.fault).run(arguments.cycles)
        except InvariantViolated as error:
            sys.stderr.write(f"BROKEN after seed {arguments.seed}: {error}\n")
            return 1
    sys.stdout.write(
        f"{outcome.kills} kills in {time.monotonic() - start:.0f} s: {outcome.answered} calls answered, "
        f"{outcome.cut_off} cut off; no MIG device, daemon, CDI file left behind, no device lost (seed "
        f"{arguments.seed})\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
