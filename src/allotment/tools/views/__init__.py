"""Claims, classes and pods as they are written, in whatever version and shape: what an author can only have meant.

A view never fails: what is missing or of the wrong type is empty. It keeps the path at which each thing stands, as
written, so that a finding can point there and a fix can change it.
"""

from allotment.tools.views.claims import ClaimKind as ClaimKind
from allotment.tools.views.claims import ClaimView as ClaimView
from allotment.tools.views.claims import ClassView as ClassView
from allotment.tools.views.claims import ConfigView as ConfigView
from allotment.tools.views.claims import ConstraintView as ConstraintView
from allotment.tools.views.claims import RequestView as RequestView
from allotment.tools.views.claims import SelectorView as SelectorView
from allotment.tools.views.claims import claim_view as claim_view
from allotment.tools.views.claims import class_view as class_view
from allotment.tools.views.claims import fragment_views as fragment_views
from allotment.tools.views.claims import selectors_of as selectors_of
from allotment.tools.views.pods import ContainerView as ContainerView
from allotment.tools.views.pods import EntryView as EntryView
from allotment.tools.views.pods import PodView as PodView
from allotment.tools.views.pods import ClaimUseView as ClaimUseView
from allotment.tools.views.pods import pod_views as pod_views
from allotment.tools.views.trees import at as at
from allotment.tools.views.trees import is_dra as is_dra
from allotment.tools.views.trees import items as items
from allotment.tools.views.trees import key_of as key_of
from allotment.tools.views.trees import mapping as mapping
from allotment.tools.views.trees import strings as strings
from allotment.tools.views.trees import text as text
