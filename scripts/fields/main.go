// Command fields prints the field table that allotment packages (src/allotment/model/data/fields.json): for every
// kind of the groups below, the names and Go types of its fields, and nothing else. Strict decoding needs exactly
// that: which names exist, and what type Kubernetes' error texts call them.
//
//	go run . > ../../src/allotment/model/data/fields.json
//
// Form: {"release", "kinds": {apiVersion: {kind: type number}}, "types": [[form, Go's name, …]]}. Forms: struct with
// {field: type number, or [type number, name of the embedded struct]}; slice and map with the element's number;
// bytes; string, bool, int32, int64, float64, uint8; and the types that decode themselves, by their own name.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const release = "1.36"

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// Types with their own JSON decoding; what they accept is written down on the Python side.
var selfDecoding = map[string]bool{
	"Quantity": true, "Time": true, "MicroTime": true, "Duration": true, "IntOrString": true, "RawExtension": true,
	"FieldsV1": true,
}

type table struct {
	numbers map[reflect.Type]int
	rows    []any
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
		t.rows[mine] = []any{of.Name(), name}
	case of.Kind() == reflect.Struct:
		fields := map[string]any{}
		t.collect(of, "", fields)
		t.rows[mine] = []any{"struct", name, fields}
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

func (t *table) collect(of reflect.Type, embedded string, fields map[string]any) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			path := field.Name
			if embedded != "" {
				path = embedded + "." + path
			}
			t.collect(inner, path, fields)
			continue
		}
		if name == "" || name == "-" || !field.IsExported() {
			continue
		}
		if embedded == "" {
			fields[name] = t.number(field.Type)
		} else {
			fields[name] = []any{t.number(field.Type), embedded}
		}
	}
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
		schedulingv1.AddToScheme, schedulingv1alpha2.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, nodev1.AddToScheme, admissionregistrationv1.AddToScheme,
		resourcev1.AddToScheme, resourcev1beta2.AddToScheme, resourcev1beta1.AddToScheme, resourcev1alpha3.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	var known []schema.GroupVersionKind
	for gvk := range scheme.AllKnownTypes() {
		known = append(known, gvk)
	}
	sort.Slice(known, func(i, j int) bool { return known[i].String() < known[j].String() })

	types := &table{numbers: map[reflect.Type]int{}}
	kinds := map[string]map[string]int{}
	for _, gvk := range known {
		of := scheme.AllKnownTypes()[gvk]
		// Objects that people write have metadata of their own; lists, options and reviews are left out.
		if _, ok := of.FieldByName("ObjectMeta"); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		version := gvk.GroupVersion().String()
		if kinds[version] == nil {
			kinds[version] = map[string]int{}
		}
		kinds[version][gvk.Kind] = types.number(of)
	}

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintf(out, "{\n\"release\": %q,\n\"kinds\": %s,\n\"types\": [\n", release, encode(kinds))
	for i, row := range types.rows {
		comma := ","
		if i == len(types.rows)-1 {
			comma = ""
		}
		fmt.Fprintf(out, "%s%s\n", encode(row), comma)
	}
	fmt.Fprint(out, "]\n}\n")
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
