"""Claims, classes and pods as they are written: ``check`` and ``migrate`` look at them alike (`tools.views`)."""

from allotment.tools.views import POD_TEMPLATES as POD_TEMPLATES
from allotment.tools.views import ClaimKind as ClaimKind
from allotment.tools.views import ClaimView as ClaimView
from allotment.tools.views import ClassView as ClassView
from allotment.tools.views import ConfigView as ConfigView
from allotment.tools.views import ConstraintView as ConstraintView
from allotment.tools.views import ContainerView as ContainerView
from allotment.tools.views import EntryView as EntryView
from allotment.tools.views import PodView as PodView
from allotment.tools.views import RequestView as RequestView
from allotment.tools.views import SelectorView as SelectorView
from allotment.tools.views import UseView as UseView
from allotment.tools.views import WrittenSelector as WrittenSelector
from allotment.tools.views import at as at
from allotment.tools.views import claim_view as claim_view
from allotment.tools.views import class_view as class_view
from allotment.tools.views import fragment_views as fragment_views
from allotment.tools.views import is_dra as is_dra
from allotment.tools.views import items as items
from allotment.tools.views import key_of as key_of
from allotment.tools.views import mapping as mapping
from allotment.tools.views import pod_view as pod_view
from allotment.tools.views import selectors_of as selectors_of
from allotment.tools.views import strings as strings
from allotment.tools.views import text as text
