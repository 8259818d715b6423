"""Validates objects as the API server does, with its paths and messages.

``admission`` runs a create, an update or a status update of a decoded object; ``errors`` defines the results.
"""

from allotment.model.validation.admission import AdmissionResult as AdmissionResult
from allotment.model.validation.admission import create as create
from allotment.model.validation.admission import update as update
from allotment.model.validation.admission import update_status as update_status
from allotment.model.validation.context import ExpressionChecker as ExpressionChecker
from allotment.model.validation.context import ExpressionProblem as ExpressionProblem
from allotment.model.validation.context import ValidationContext as ValidationContext
from allotment.model.validation.errors import ErrorType as ErrorType
from allotment.model.validation.errors import FieldError as FieldError
from allotment.model.validation.errors import invalid_status as invalid_status
from allotment.model.validation.errors import summary as summary
