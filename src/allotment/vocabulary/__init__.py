"""The names and values that DRA drivers publish and accept, by driver and release.

The vocabularies are open: a fork or a later release may publish a name that is missing here. An unknown name can be
reported, with similar names, but only a cluster's own slices prove that it is wrong.
"""

from allotment.vocabulary.drivers import drivers as drivers
from allotment.vocabulary.drivers import guessed_classes as guessed_classes
from allotment.vocabulary.drivers import installed_classes as installed_classes
from allotment.vocabulary.drivers import mistaken_drivers as mistaken_drivers
from allotment.vocabulary.drivers import vendors as vendors
from allotment.vocabulary.drivers import vocabulary as vocabulary
from allotment.vocabulary.terms import Attribute as Attribute
from allotment.vocabulary.terms import Capacity as Capacity
from allotment.vocabulary.terms import ClassTerm as ClassTerm
from allotment.vocabulary.terms import DeviceType as DeviceType
from allotment.vocabulary.terms import Gate as Gate
from allotment.vocabulary.terms import Renamed as Renamed
from allotment.vocabulary.terms import Vocabulary as Vocabulary
