// Command fields prints the field table that allotment packages (src/allotment/model/data/fields.json): what
// Kubernetes' own Go types say of every kind of the groups below, as facts, without any text of theirs.
//
//	go run . > ../../src/allotment/model/data/fields.json
//
// Form: {"release", "packages": [path], "kinds": {apiVersion: {kind: type number}}, "types": [[form, Go's name, …]]}.
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

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const release = "1.36"

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
		schedulingv1.AddToScheme, schedulingv1alpha2.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, nodev1.AddToScheme, admissionregistrationv1.AddToScheme,
		resourcev1.AddToScheme, resourcev1beta2.AddToScheme, resourcev1beta1.AddToScheme, resourcev1alpha3.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, apiextensionsv1.AddToScheme,
		certificatesv1.AddToScheme,
	} {
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
	fmt.Fprintf(out, "{\n\"release\": %q,\n\"packages\": %s,\n\"kinds\": %s,\n\"types\": [\n",
		release, encode(types.packages), encode(kinds))
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
