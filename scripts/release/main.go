// Command release prints what Kubernetes' own Go types say of every kind that a release can serve, as facts, without any
// text of theirs. scripts/release_table runs it: it writes packages.go and go.mod, which name the packages of a release.
//
// Form: {"packages": [path], "kinds": {apiVersion: {kind: type number}}, "types": [[form, Go's name, …]]}.
// Forms: struct with (package number, "atomic" or "", [field]); slice and map with the element's number; bytes; string,
// bool, int32, int64, float64, uint8; and the types that decode themselves, by their own name (those that hold other
// objects with the number of that type).
//
// A field is [name, type number, protobuf number, flags, facts?], in Go's order. Flags: 1 = printed though empty,
// 2 = a pointer, 4 = required. Facts, each only where there is one: "e" the structs it is embedded through, "w" their
// protobuf numbers, "k" patchMergeKey, "s" patchStrategy, "l" list type, "y" list map keys, "m" map type, "d" default,
// "p" = the named slice is a message of its own in protobuf.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range packages {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	// What every group speaks of itself with, whatever its version.
	meta := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}
	scheme.AddKnownTypes(meta, &metav1.DeleteOptions{}, &metav1.Status{}, &metav1.APIResourceList{})
	shared := map[schema.GroupVersionKind]bool{}
	for _, kind := range []string{"DeleteOptions", "Status", "APIResourceList"} {
		shared[meta.WithKind(kind)] = true
	}

	var known []schema.GroupVersionKind
	for gvk := range scheme.AllKnownTypes() {
		known = append(known, gvk)
	}
	sort.Slice(known, func(i, j int) bool { return known[i].String() < known[j].String() })

	types := newTable()
	kinds := map[string]map[string]int{}
	for _, gvk := range known {
		of := scheme.AllKnownTypes()[gvk]
		// Objects that people write have metadata of their own; lists and options are left out.
		_, object := of.FieldByName("ObjectMeta")
		if gvk.Version == runtime.APIVersionInternal || !(object || shared[gvk]) {
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
	fmt.Fprintf(out, "{\n\"packages\": %s,\n\"kinds\": %s,\n\"types\": [\n", encode(types.packages), encode(kinds))
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
