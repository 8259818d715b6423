"""The standard functions and operators of CEL, and optional values."""

from __future__ import annotations

LOGIC = """
_?_:_                   conditional             (bool, A, A) A
_&&_                    logical_and             (bool, bool) bool
_||_                    logical_or              (bool, bool) bool
!_                      logical_not             (bool) bool
@not_strictly_false     not_strictly_false      (bool) bool
_==_                    equals                  (A, A) bool
_!=_                    not_equals              (A, A) bool
"""

ARITHMETIC = """
_+_  add_bytes                     (bytes, bytes) bytes
_+_  add_double                    (double, double) double
_+_  add_duration_duration         (duration, duration) duration
_+_  add_duration_timestamp        (duration, timestamp) timestamp
_+_  add_timestamp_duration        (timestamp, duration) timestamp
_+_  add_int64                     (int, int) int
_+_  add_list                      (list(A), list(A)) list(A)
_+_  add_string                    (string, string) string
_+_  add_uint64                    (uint, uint) uint
_/_  divide_double                 (double, double) double
_/_  divide_int64                  (int, int) int
_/_  divide_uint64                 (uint, uint) uint
_%_  modulo_int64                  (int, int) int
_%_  modulo_uint64                 (uint, uint) uint
_*_  multiply_double               (double, double) double
_*_  multiply_int64                (int, int) int
_*_  multiply_uint64               (uint, uint) uint
-_   negate_double                 (double) double
-_   negate_int64                  (int) int
_-_  subtract_double               (double, double) double
_-_  subtract_duration_duration    (duration, duration) duration
_-_  subtract_int64                (int, int) int
_-_  subtract_timestamp_duration   (timestamp, duration) timestamp
_-_  subtract_timestamp_timestamp  (timestamp, timestamp) duration
_-_  subtract_uint64               (uint, uint) uint
"""

CONTAINERS = """
_[_]  index_list                (list(A), int) A
_[_]  index_map                 (map(A, B), A) B
@in   in_list                   (A, list(A)) bool
@in   in_map                    (A, map(A, B)) bool
size  size_bytes                (bytes) int
size  bytes_size                bytes.() int
size  size_list                 (list(A)) int
size  list_size                 list(A).() int
size  size_map                  (map(A, B)) int
size  map_size                  map(A, B).() int
size  size_string               (string) int
size  string_size               string.() int
"""

CONVERSIONS = """
type       type                    (A) type(A)
bool       bool_to_bool            (bool) bool
bool       string_to_bool          (string) bool
bytes      bytes_to_bytes          (bytes) bytes
bytes      string_to_bytes         (string) bytes
double     double_to_double        (double) double
double     int64_to_double         (int) double
double     string_to_double        (string) double
double     uint64_to_double        (uint) double
duration   duration_to_duration    (duration) duration
duration   int64_to_duration       (int) duration
duration   string_to_duration      (string) duration
dyn        to_dyn                  (A) dyn
int        int64_to_int64          (int) int
int        double_to_int64         (double) int
int        duration_to_int64       (duration) int
int        string_to_int64         (string) int
int        timestamp_to_int64      (timestamp) int
int        uint64_to_int64         (uint) int
string     string_to_string        (string) string
string     bool_to_string          (bool) string
string     bytes_to_string         (bytes) string
string     double_to_string        (double) string
string     duration_to_string      (duration) string
string     int64_to_string         (int) string
string     timestamp_to_string     (timestamp) string
string     uint64_to_string        (uint) string
timestamp  timestamp_to_timestamp  (timestamp) timestamp
timestamp  int64_to_timestamp      (int) timestamp
timestamp  string_to_timestamp     (string) timestamp
uint       uint64_to_uint64        (uint) uint
uint       double_to_uint64        (double) uint
uint       int64_to_uint64         (int) uint
uint       string_to_uint64        (string) uint
"""

STRINGS = """
contains    contains_string     string.(string) bool
endsWith    ends_with_string    string.(string) bool
startsWith  starts_with_string  string.(string) bool
matches     matches             (string, string) bool
matches     matches_string      string.(string) bool
"""

TIME = """
getFullYear      timestamp_to_year                          timestamp.() int
getFullYear      timestamp_to_year_with_tz                  timestamp.(string) int
getMonth         timestamp_to_month                         timestamp.() int
getMonth         timestamp_to_month_with_tz                 timestamp.(string) int
getDayOfYear     timestamp_to_day_of_year                   timestamp.() int
getDayOfYear     timestamp_to_day_of_year_with_tz           timestamp.(string) int
getDayOfMonth    timestamp_to_day_of_month                  timestamp.() int
getDayOfMonth    timestamp_to_day_of_month_with_tz          timestamp.(string) int
getDate          timestamp_to_day_of_month_1_based          timestamp.() int
getDate          timestamp_to_day_of_month_1_based_with_tz  timestamp.(string) int
getDayOfWeek     timestamp_to_day_of_week                   timestamp.() int
getDayOfWeek     timestamp_to_day_of_week_with_tz           timestamp.(string) int
getHours         timestamp_to_hours                         timestamp.() int
getHours         timestamp_to_hours_with_tz                 timestamp.(string) int
getHours         duration_to_hours                          duration.() int
getMinutes       timestamp_to_minutes                       timestamp.() int
getMinutes       timestamp_to_minutes_with_tz               timestamp.(string) int
getMinutes       duration_to_minutes                        duration.() int
getSeconds       timestamp_to_seconds                       timestamp.() int
getSeconds       timestamp_to_seconds_tz                    timestamp.(string) int
getSeconds       duration_to_seconds                        duration.() int
getMilliseconds  timestamp_to_milliseconds                  timestamp.() int
getMilliseconds  timestamp_to_milliseconds_with_tz          timestamp.(string) int
getMilliseconds  duration_to_milliseconds                   duration.() int
"""

OPTIONALS = """
optional.of              optional_of                           (V) optional(V)
optional.ofNonZeroValue  optional_ofNonZeroValue               (V) optional(V)
optional.none            optional_none                         () optional(V)
value                    optional_value                        optional(V).() V
hasValue                 optional_hasValue                     optional(V).() bool
or                       optional_or_optional                  optional(V).(optional(V)) optional(V)
orValue                  optional_orValue_value                optional(V).(V) V
_?._                     select_optional_field                 (dyn, string) optional(V)
_[?_]                    list_optindex_optional_int            (list(V), int) optional(V)
_[?_]                    optional_list_optindex_optional_int   (optional(list(V)), int) optional(V)
_[?_]                    map_optindex_optional_value           (map(K, V), K) optional(V)
_[?_]                    optional_map_optindex_optional_value  (optional(map(K, V)), K) optional(V)
last                     list_last                             list(V).() optional(V)
first                    list_first                            list(V).() optional(V)
optional.unwrap          optional_unwrap                       (list(optional(V))) list(V)
unwrapOpt                optional_unwrapOpt                    list(optional(V)).() list(V)
_[_]  optional_list_index_int   (optional(list(V)), int) optional(V)
_[_]  optional_map_index_value  (optional(map(K, V)), K) optional(V)
"""


def _comparisons() -> str:
    """The four order operators. Numbers compare across numeric types, other values only with their own type."""
    order = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
    spelled = {"int": "int64", "uint": "uint64"}
    pairs = [
        ("bool", "bool"),
        ("int", "int"),
        ("int", "double"),
        ("int", "uint"),
        ("uint", "uint"),
        ("uint", "double"),
        ("uint", "int"),
        ("double", "double"),
        ("double", "int"),
        ("double", "uint"),
        ("string", "string"),
        ("bytes", "bytes"),
        ("timestamp", "timestamp"),
        ("duration", "duration"),
    ]
    lines = []
    for operator, word in order.items():
        for left, right in pairs:
            names = [left] if left == right else [left, right]
            suffix = "_".join(spelled.get(n, n) for n in names)
            lines.append(f"{operator} {word}_{suffix} ({left}, {right}) bool")
    return "\n".join(lines)


COMPARISONS = _comparisons()

TABLES = (LOGIC, ARITHMETIC, COMPARISONS, CONTAINERS, CONVERSIONS, STRINGS, TIME, OPTIONALS)
