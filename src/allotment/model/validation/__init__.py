"""What the API server would say to an object, in its own paths and words.

``admission`` takes a decoded object through a create, an update or a status update; ``errors`` is what comes out.
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
