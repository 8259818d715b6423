"""The Kubernetes CEL libraries: URLs, regular expressions, lists, quantities, versions, networks, formats,
``includes``.

The authorizer functions are declared too, but only admission expressions have a value to call them on.
"""

from __future__ import annotations

URLS = """
url             string_to_url         (string) URL
isURL           is_url_string         (string) bool
getScheme       url_get_scheme        URL.() string
getHost         url_get_host          URL.() string
getHostname     url_get_hostname      URL.() string
getPort         url_get_port          URL.() string
getEscapedPath  url_get_escaped_path  URL.() string
getQuery        url_get_query         URL.() map(string, list(string))
"""

REGEX = """
find     string_find_string          string.(string) string
findAll  string_find_all_string      string.(string) list(string)
findAll  string_find_all_string_int  string.(string, int) list(string)
"""

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")

LISTS = "\n".join(
    [f"isSorted list_{t}_is_sorted_bool list({t}).() bool" for t in _COMPARABLE]
    + [f"sum list_{t}_sum_{t} list({t}).() {t}" for t in _SUMMABLE]
    + [f"max list_{t}_max_{t} list({t}).() {t}" for t in _COMPARABLE]
    + [f"min list_{t}_min_{t} list({t}).() {t}" for t in _COMPARABLE]
    + ["indexOf list_a_index_of_int list(A).(A) int", "lastIndexOf list_a_last_index_of_int list(A).(A) int"]
)

QUANTITY = """
quantity            string_to_quantity        (string) Quantity
isQuantity          is_quantity_string        (string) bool
sign                quantity_sign             (Quantity) int
isGreaterThan       quantity_is_greater_than  Quantity.(Quantity) bool
isLessThan          quantity_is_less_than     Quantity.(Quantity) bool
compareTo           quantity_compare_to       Quantity.(Quantity) int
asApproximateFloat  quantity_get_float        Quantity.() double
asInteger           quantity_get_int          Quantity.() int
isInteger           quantity_is_integer       Quantity.() bool
add                 quantity_add              Quantity.(Quantity) Quantity
add                 quantity_add_int          Quantity.(int) Quantity
sub                 quantity_sub              Quantity.(Quantity) Quantity
sub                 quantity_sub_int          Quantity.(int) Quantity
"""

SEMVER = """
isGreaterThan  semver_is_greater_than  Semver.(Semver) bool
isLessThan     semver_is_less_than     Semver.(Semver) bool
compareTo      semver_compare_to       Semver.(Semver) int
semver         string_to_semver        (string) Semver
semver         string_bool_to_semver   (string, bool) Semver
isSemver       is_semver_string        (string) bool
isSemver       is_semver_string_bool   (string, bool) bool
major          semver_major            Semver.() int
minor          semver_minor            Semver.() int
patch          semver_patch            Semver.() int
"""

IP = """
ip                    string_to_ip                (string) IP
ip.isCanonical        ip_is_canonical             (string) bool
isIP                  is_ip                       (string) bool
family                ip_family                   IP.() int
isUnspecified         ip_is_unspecified           IP.() bool
isLoopback            ip_is_loopback              IP.() bool
isLinkLocalMulticast  ip_is_link_local_multicast  IP.() bool
isLinkLocalUnicast    ip_is_link_local_unicast    IP.() bool
isGlobalUnicast       ip_is_global_unicast        IP.() bool
string                ip_to_string                (IP) string
"""

CIDR = """
cidr          string_to_cidr             (string) CIDR
isCIDR        is_cidr                    (string) bool
containsIP    cidr_contains_ip_string    CIDR.(string) bool
containsIP    cidr_contains_ip_ip        CIDR.(IP) bool
containsCIDR  cidr_contains_cidr_string  CIDR.(string) bool
containsCIDR  cidr_contains_cidr         CIDR.(CIDR) bool
prefixLength  cidr_prefix_length         CIDR.() int
masked        cidr_masked                CIDR.() CIDR
ip            cidr_ip                    CIDR.() IP
string        cidr_to_string             (CIDR) string
"""

# fmt: off
#: The named formats, each a function without arguments.
FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix",
    "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)
# fmt: on

FORMAT = """
format.named  format-named     (string) optional(NamedFormat)
validate      format-validate  NamedFormat.(string) optional(list(string))
""" + "\n".join(f"format.{name} format.{name} () NamedFormat" for name in FORMATS)

AUTHORIZER = """
path            authorizer_path            Authorizer.(string) PathCheck
group           authorizer_group           Authorizer.(string) GroupCheck
serviceAccount  authorizer_serviceaccount  Authorizer.(string, string) Authorizer
resource        groupcheck_resource        GroupCheck.(string) ResourceCheck
subresource     resourcecheck_subresource  ResourceCheck.(string) ResourceCheck
namespace       resourcecheck_namespace    ResourceCheck.(string) ResourceCheck
name            resourcecheck_name         ResourceCheck.(string) ResourceCheck
check           pathcheck_check            PathCheck.(string) Decision
check           resourcecheck_check        ResourceCheck.(string) Decision
errored         decision_errored           Decision.() bool
error           decision_error             Decision.() string
allowed         decision_allowed           Decision.() bool
reason          decision_reason            Decision.() string
fieldSelector   authorizer_fieldselector   ResourceCheck.(string) ResourceCheck
labelSelector   authorizer_labelselector   ResourceCheck.(string) ResourceCheck
"""

#: KEP-5491: equality with a scalar, membership in a list. Declared depending on release, environment and gate.
INCLUDES = "includes dra_includes_dyn_dyn dyn.(dyn) bool"
#: The same in the general library of lists, from 1.37 on: for lists of any length.
LIST_INCLUDES = "includes list_includes_dyn_dyn dyn.(dyn) bool"

TABLES = (URLS, REGEX, LISTS, AUTHORIZER, QUANTITY, IP, CIDR, FORMAT, SEMVER)
