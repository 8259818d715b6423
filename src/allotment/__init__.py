"""Dynamic Resource Allocation for GPUs: allocates devices as Kubernetes does, and gives the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment import drivers as drivers
    from allotment import reference as reference
    from allotment.api.check import check as check
    from allotment.api.check import fix as fix
    from allotment.api.claim import claim as claim
    from allotment.api.claim import describe_claims as describe_claims
    from allotment.api.cluster import Cluster as Cluster
    from allotment.api.doctor import doctor as doctor
    from allotment.api.explain import explain as explain
    from allotment.api.explain_classes import explain_classes as explain_classes
    from allotment.api.free import free as free
    from allotment.api.load import Manifests as Manifests
    from allotment.api.load import Source as Source
    from allotment.api.load import load as load
    from allotment.api.migrate import migrate as migrate
    from allotment.api.plan import plan as plan
    from allotment.api.replay import replay as replay
    from allotment.api.verify_driver import verify_driver as verify_driver
    from allotment.cluster.client import Resource as Resource
    from allotment.cluster.client import WatchEvent as WatchEvent
    from allotment.cluster.errors import StatusError as StatusError
    from allotment.cluster.errors import Unreachable as Unreachable
    from allotment.drivers.driver import Driver as Driver
    from allotment.drivers.verify.report import VerifyReport as VerifyReport
    from allotment.errors import InputError as InputError
    from allotment.errors import InvalidManifests as InvalidManifests
    from allotment.explanation.class_report import ClassExplanation as ClassExplanation
    from allotment.explanation.report import Answer as Answer
    from allotment.explanation.report import Explanation as Explanation
    from allotment.extras import MissingExtraError as MissingExtraError
    from allotment.lab.kinds import UnknownKind as UnknownKind
    from allotment.lab.lab import Lab as Lab
    from allotment.lab.manifests import NotApplied as NotApplied
    from allotment.lab.sync import SyncClient as SyncClient
    from allotment.lab.sync import Watch as Watch
    from allotment.model.problems import InputProblem as InputProblem
    from allotment.model.problems import Position as Position
    from allotment.model.quantity import Quantity as Quantity
    from allotment.model.quantity import QuantityError as QuantityError
    from allotment.planning.machine_plan import MachinePlan as MachinePlan
    from allotment.queries.answers import CheckAnswer as CheckAnswer
    from allotment.queries.answers import ClassSelections as ClassSelections
    from allotment.queries.answers import CodeMeaning as CodeMeaning
    from allotment.queries.answers import FitAnswer as FitAnswer
    from allotment.queries.answers import PlanAnswer as PlanAnswer
    from allotment.queries.client import WebClient as WebClient
    from allotment.queries.client import connect as connect
    from allotment.screens.what_if import WhatIfScreen as WhatIfScreen
    from allotment.tools.check.finding import Finding as Finding
    from allotment.tools.check.report import CheckReport as CheckReport
    from allotment.tools.claims.manifests import ClaimManifests as ClaimManifests
    from allotment.tools.claims.request import LackingDevices as LackingDevices
    from allotment.tools.claims.sentences import ClaimSentence as ClaimSentence
    from allotment.tools.doctor.report import DoctorReport as DoctorReport
    from allotment.tools.free import FreeReport as FreeReport
    from allotment.tools.migrate.migration_report import MigrationReport as MigrationReport
    from allotment.tools.replay.report import Curve as Curve

__all__ = [
    "Answer",
    "CheckAnswer",
    "CheckReport",
    "ClaimManifests",
    "ClaimSentence",
    "ClassExplanation",
    "ClassSelections",
    "Cluster",
    "CodeMeaning",
    "Curve",
    "DoctorReport",
    "Driver",
    "Explanation",
    "Finding",
    "FitAnswer",
    "FreeReport",
    "InputError",
    "InputProblem",
    "InvalidManifests",
    "Lab",
    "LackingDevices",
    "MachinePlan",
    "Manifests",
    "MigrationReport",
    "MissingExtraError",
    "NotApplied",
    "PlanAnswer",
    "Position",
    "Quantity",
    "QuantityError",
    "Resource",
    "Source",
    "StatusError",
    "SyncClient",
    "UnknownKind",
    "Unreachable",
    "VerifyReport",
    "Watch",
    "WatchEvent",
    "WebClient",
    "WhatIfScreen",
    "check",
    "claim",
    "connect",
    "describe_claims",
    "doctor",
    "explain",
    "explain_classes",
    "fix",
    "free",
    "load",
    "migrate",
    "plan",
    "replay",
    "verify_driver",
    "__version__",
]
__version__ = "0.1.0"

#: Imported at first access, so that ``import allotment`` does not import the control plane of the lab.
_MODULES = {
    "Answer": "allotment.explanation.report",
    "CheckAnswer": "allotment.queries.answers",
    "CheckReport": "allotment.tools.check.report",
    "ClaimManifests": "allotment.tools.claims.manifests",
    "ClaimSentence": "allotment.tools.claims.sentences",
    "ClassExplanation": "allotment.explanation.class_report",
    "ClassSelections": "allotment.queries.answers",
    "Cluster": "allotment.api.cluster",
    "CodeMeaning": "allotment.queries.answers",
    "Curve": "allotment.tools.replay.report",
    "DoctorReport": "allotment.tools.doctor.report",
    "Driver": "allotment.drivers.driver",
    "Explanation": "allotment.explanation.report",
    "Finding": "allotment.tools.check.finding",
    "FitAnswer": "allotment.queries.answers",
    "FreeReport": "allotment.tools.free",
    "InputError": "allotment.errors",
    "InputProblem": "allotment.model.problems",
    "InvalidManifests": "allotment.errors",
    "Lab": "allotment.lab.lab",
    "LackingDevices": "allotment.tools.claims.request",
    "MachinePlan": "allotment.planning.machine_plan",
    "Manifests": "allotment.api.load",
    "MigrationReport": "allotment.tools.migrate.migration_report",
    "MissingExtraError": "allotment.extras",
    "NotApplied": "allotment.lab.manifests",
    "PlanAnswer": "allotment.queries.answers",
    "Position": "allotment.model.problems",
    "Quantity": "allotment.model.quantity",
    "QuantityError": "allotment.model.quantity",
    "Resource": "allotment.cluster.client",
    "Source": "allotment.api.load",
    "StatusError": "allotment.cluster.errors",
    "SyncClient": "allotment.lab.sync",
    "UnknownKind": "allotment.lab.kinds",
    "Unreachable": "allotment.cluster.errors",
    "VerifyReport": "allotment.drivers.verify.report",
    "Watch": "allotment.lab.sync",
    "WatchEvent": "allotment.cluster.client",
    "WebClient": "allotment.queries.client",
    "WhatIfScreen": "allotment.screens.what_if",
    "check": "allotment.api.check",
    "claim": "allotment.api.claim",
    "connect": "allotment.queries.client",
    "describe_claims": "allotment.api.claim",
    "doctor": "allotment.api.doctor",
    "explain": "allotment.api.explain",
    "explain_classes": "allotment.api.explain_classes",
    "fix": "allotment.api.check",
    "free": "allotment.api.free",
    "load": "allotment.api.load",
    "migrate": "allotment.api.migrate",
    "plan": "allotment.api.plan",
    "replay": "allotment.api.replay",
    "verify_driver": "allotment.api.verify_driver",
}
#: Also imported at first access: ``allotment.drivers.device`` works after ``import allotment``.
_SUBMODULES = ("drivers", "reference")


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _SUBMODULES:
            return import_module(f"{__name__}.{name}")
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if module.startswith("allotment.lab."):
            import_module("allotment.extras").require("running a lab", "lab")
        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, *(name for name in globals() if name.startswith("__"))})
