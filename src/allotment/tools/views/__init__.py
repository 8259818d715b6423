"""Lenient views of claims, classes and pods in manifests of any version, with the path of every field.

A view never fails: missing fields and fields of the wrong type are empty. The paths are those in the document, so that
findings can point to them and fixes can change them.
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
from allotment.tools.views.pods import ClaimUseView as ClaimUseView
from allotment.tools.views.pods import ContainerView as ContainerView
from allotment.tools.views.pods import EntryView as EntryView
from allotment.tools.views.pods import PodView as PodView
from allotment.tools.views.pods import pod_views as pod_views
from allotment.tools.views.trees import at as at
from allotment.tools.views.trees import is_dra as is_dra
from allotment.tools.views.trees import items as items
from allotment.tools.views.trees import key_of as key_of
from allotment.tools.views.trees import mapping as mapping
from allotment.tools.views.trees import strings as strings
from allotment.tools.views.trees import text as text
