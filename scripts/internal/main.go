// Command internal prints what the API server's internal Go type of a pod's spec looks like as JSON, because the
// message about a forbidden change of a pod shows it so (src/allotment/apiserver/kinds/data/pod_spec):
//
//	go run . > ../../src/allotment/apiserver/kinds/data/pod_spec/1.36.json
//	go run -modfile 1.37.mod . > ../../src/allotment/apiserver/kinds/data/pod_spec/1.37.json
//
// Form: [[form, …]] by type number, the first being PodSpec. Forms: struct with [[Go name, name in core/v1, type
// number]] ("" for an embedded struct), slice and map with the element's number, pointer with what it points to, and
// string, number, bool and value (a type that writes itself).
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core"
)

type table struct {
	rows    []any
	numbers map[reflect.Type]int
}

// names gives the JSON names of the fields of the external type, by Go name, embedded structs included.
func names(external reflect.Type) map[string]reflect.StructField {
	found := map[string]reflect.StructField{}
	if external == nil || external.Kind() != reflect.Struct {
		return found
	}
	for _, field := range reflect.VisibleFields(external) {
		found[field.Name] = field
	}
	return found
}

func tag(field reflect.StructField) string {
	return strings.Split(field.Tag.Get("json"), ",")[0]
}

func bare(external reflect.Type) reflect.Type {
	for external != nil && external.Kind() == reflect.Pointer {
		external = external.Elem()
	}
	return external
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func (t *table) number(internal, external reflect.Type) int {
	if known, ok := t.numbers[internal]; ok {
		return known
	}
	number := len(t.rows)
	t.numbers[internal] = number
	t.rows = append(t.rows, nil)
	element := func() reflect.Type {
		if external = bare(external); external == nil {
			return nil
		}
		return external.Elem()
	}
	switch {
	case internal.Kind() == reflect.Pointer:
		t.rows[number] = []any{"pointer", t.number(internal.Elem(), bare(external))}
	case internal.Implements(marshaler) || reflect.PointerTo(internal).Implements(marshaler):
		t.rows[number] = []any{"value"}
	case internal.Kind() == reflect.Slice:
		t.rows[number] = []any{"slice", t.number(internal.Elem(), element())}
	case internal.Kind() == reflect.Map:
		t.rows[number] = []any{"map", t.number(internal.Elem(), element())}
	case internal.Kind() == reflect.Struct:
		outside := names(bare(external))
		fields := []any{}
		for i := range internal.NumField() {
			field := internal.Field(i)
			other, ok := outside[field.Name]
			var inner reflect.Type
			name := ""
			if ok {
				inner, name = other.Type, tag(other)
			}
			if field.Anonymous {
				name = ""
				if !ok {
					inner = external
				}
			}
			fields = append(fields, []any{field.Name, name, t.number(field.Type, inner), field.Anonymous})
		}
		t.rows[number] = []any{"struct", fields}
	case internal.Kind() == reflect.String:
		t.rows[number] = []any{"string"}
	case internal.Kind() == reflect.Bool:
		t.rows[number] = []any{"bool"}
	default:
		t.rows[number] = []any{"number"}
	}
	return number
}

func main() {
	t := &table{numbers: map[reflect.Type]int{}}
	t.number(reflect.TypeFor[core.PodSpec](), reflect.TypeFor[corev1.PodSpec]())
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(t.rows); err != nil {
		panic(err)
	}
}
