package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	always = 1 << iota
	pointer
	required
)

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// Types with their own JSON decoding; what they accept is written down on the Python side.
var selfDecoding = map[string]bool{
	"Quantity": true, "Time": true, "MicroTime": true, "Duration": true, "IntOrString": true, "RawExtension": true,
	"FieldsV1": true, "JSON": true,
	// These stand for an object or something else; the object is their element.
	"JSONSchemaPropsOrArray": true, "JSONSchemaPropsOrBool": true, "JSONSchemaPropsOrStringArray": true,
}

type facts struct {
	Embedded string          `json:"e,omitempty"`
	Within   []int           `json:"w,omitempty"`
	MergeKey string          `json:"k,omitempty"`
	Strategy string          `json:"s,omitempty"`
	ListType string          `json:"l,omitempty"`
	ListKeys []string        `json:"y,omitempty"`
	MapType  string          `json:"m,omitempty"`
	Default  json.RawMessage `json:"d,omitempty"`
	Message  bool            `json:"p,omitempty"`
}

func (f facts) empty() bool { return reflect.DeepEqual(f, facts{}) }

type table struct {
	numbers  map[reflect.Type]int
	packages []string
	rows     []any
	sources  *sources
}

func newTable() *table {
	return &table{numbers: map[reflect.Type]int{}, sources: newSources()}
}

func (t *table) number(of reflect.Type) int {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if known, ok := t.numbers[of]; ok {
		return known
	}
	mine := len(t.rows)
	t.numbers[of] = mine
	t.rows = append(t.rows, nil)
	name := of.String()
	switch {
	case reflect.PointerTo(of).Implements(unmarshaler):
		if !selfDecoding[of.Name()] {
			panic("unknown self-decoding type " + name)
		}
		row := []any{of.Name(), name}
		if schema, ok := of.FieldByName("Schema"); ok {
			row = append(row, t.number(schema.Type))
		}
		t.rows[mine] = row
	case of.Kind() == reflect.Struct:
		structType := t.sources.markers(of.PkgPath(), of.Name(), "").first("structType")
		fields := []any{}
		t.collect(of, nil, nil, &fields)
		t.rows[mine] = []any{"struct", name, t.pkg(of.PkgPath()), structType, fields}
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8:
		t.rows[mine] = []any{"bytes", name}
	case of.Kind() == reflect.Slice:
		t.rows[mine] = []any{"slice", name, t.number(of.Elem())}
	case of.Kind() == reflect.Map:
		t.rows[mine] = []any{"map", name, t.number(of.Elem())}
	case of.Kind() == reflect.Interface:
		t.rows[mine] = []any{"any", name}
	default:
		t.rows[mine] = []any{of.Kind().String(), name}
	}
	return mine
}

func (t *table) pkg(path string) int {
	if known := slices.Index(t.packages, path); known >= 0 {
		return known
	}
	t.packages = append(t.packages, path)
	return len(t.packages) - 1
}

func (t *table) collect(of reflect.Type, embedded []string, within []int, fields *[]any) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			through := within
			if number := protobufNumber(field); number != 0 {
				through = append(slices.Clone(within), number)
			}
			t.collect(inner, append(slices.Clone(embedded), field.Name), through, fields)
			continue
		}
		if name == "" || name == "-" || !field.IsExported() {
			continue
		}
		*fields = append(*fields, t.field(of, field, name, options, embedded, within))
	}
}

func (t *table) field(
	of reflect.Type, field reflect.StructField, name, options string, embedded []string, within []int,
) []any {
	marks := t.sources.markers(of.PkgPath(), of.Name(), field.Name)
	omitEmpty, omitZero := strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")
	flags := 0
	// Go's omitempty does nothing to a struct that is not behind a pointer.
	if !omitZero && (!omitEmpty || field.Type.Kind() == reflect.Struct) {
		flags |= always
	}
	if field.Type.Kind() == reflect.Pointer {
		flags |= pointer
	}
	if marks.has("required") || !(omitEmpty || omitZero || marks.has("optional")) {
		flags |= required
	}
	mapType := marks.first("mapType")
	if structType := marks.first("structType"); structType != "" {
		mapType = structType
	}
	more := facts{
		Embedded: strings.Join(embedded, "."),
		Within:   within,
		MergeKey: field.Tag.Get("patchMergeKey"),
		Strategy: field.Tag.Get("patchStrategy"),
		ListType: marks.first("listType"),
		ListKeys: marks["listMapKey"],
		MapType:  mapType,
		Default:  t.sources.defaultOf(of.PkgPath(), marks.first("default")),
		Message:  namedSlice(field.Type),
	}
	row := []any{name, t.number(field.Type), protobufNumber(field), flags}
	if !more.empty() {
		row = append(row, more)
	}
	return row
}

// Slices with a name of their own are messages in protobuf where Kubernetes generated code for them.
func namedSlice(of reflect.Type) bool {
	if of.Kind() == reflect.Map {
		of = of.Elem()
	}
	_, message := reflect.PointerTo(of).MethodByName("MarshalToSizedBuffer")
	return of.Kind() == reflect.Slice && message
}

func protobufNumber(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		panic(field.Name + ": " + field.Tag.Get("protobuf"))
	}
	return number
}
