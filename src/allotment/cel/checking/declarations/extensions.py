"""The cel-go extension libraries of the environment: strings v2, sets, two-variable comprehensions, lists v3."""

from __future__ import annotations

STRINGS = """
charAt         string_char_at_int                string.(int) string
indexOf        string_index_of_string            string.(string) int
indexOf        string_index_of_string_int        string.(string, int) int
lastIndexOf    string_last_index_of_string       string.(string) int
lastIndexOf    string_last_index_of_string_int   string.(string, int) int
lowerAscii     string_lower_ascii                string.() string
replace        string_replace_string_string      string.(string, string) string
replace        string_replace_string_string_int  string.(string, string, int) string
split          string_split_string               string.(string) list(string)
split          string_split_string_int           string.(string, int) list(string)
substring      string_substring_int              string.(int) string
substring      string_substring_int_int          string.(int, int) string
trim           string_trim                       string.() string
upperAscii     string_upper_ascii                string.() string
format         string_format                     string.(list(dyn)) string
strings.quote  strings_quote                     (string) string
join           list_join                         list(string).() string
join           list_join_string                  list(string).(string) string
"""

SETS = """
sets.contains    list_sets_contains_list    (list(T), list(T)) bool
sets.equivalent  list_sets_equivalent_list  (list(T), list(T)) bool
sets.intersects  list_sets_intersects_list  (list(T), list(T)) bool
"""

#: Functions that the ``transformMap`` macros expand to.
COMPREHENSIONS = """
cel.@mapInsert  @mapInsert_map_key_value  (map(K, V), K, V) map(K, V)
cel.@mapInsert  @mapInsert_map_map        (map(K, V), map(K, V)) map(K, V)
"""

# fmt: off
_COMPARABLE = (
    ("int", "int"), ("uint", "uint"), ("double", "double"), ("bool", "bool"),
    ("google.protobuf.Duration", "duration"), ("google.protobuf.Timestamp", "timestamp"), ("string", "string"),
    ("bytes", "bytes"),
)
# fmt: on

#: Lists v3; available to new expressions since Kubernetes 1.35.
LISTS = """
slice        list_slice        list(T).(int, int) list(T)
flatten      list_flatten      list(list(T)).() list(T)
flatten      list_flatten_int  list(dyn).(int) list(dyn)
lists.range  lists_range       (int) list(int)
reverse      list_reverse      list(T).() list(T)
distinct     list_distinct     list(T).() list(T)
""" + "\n".join(
    [f"sort list_{name}_sort list({t}).() list({t})" for name, t in _COMPARABLE]
    + [f"@sortByAssociatedKeys list_{name}_sortByAssociatedKeys list(T).(list({t})) list(T)" for name, t in _COMPARABLE]
)

TABLES = (STRINGS, SETS, COMPREHENSIONS)
