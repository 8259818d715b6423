// Answers allocator scenarios with the allocator of kube-scheduler: reads cases in the format of the allocator vectors,
// one JSON object per line, and prints each with the answer, for tests/vectors/compared.py. Errors are not shortened.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// limit ends a search that takes too long; the case then has the outcome "undecided".
const limit = 5 * time.Second

type scenario struct {
	Name             string                       `json:"name"`
	Features         map[string]bool              `json:"features"`
	Node             *v1.Node                     `json:"node"`
	Classes          classes                      `json:"classes"`
	Slices           []*resourceapi.ResourceSlice `json:"slices"`
	ClaimsToAllocate []*resourceapi.ResourceClaim `json:"claimsToAllocate"`
	AllocatedClaims  []*resourceapi.ResourceClaim `json:"allocatedClaims"`
}

type answer struct {
	Name    string                         `json:"name"`
	Outcome string                         `json:"outcome"`
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error"`
	Fatal   bool                           `json:"fatal"`
	Steps   int64                          `json:"steps"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclass"}, name)
}

func features(on map[string]bool) structured.Features {
	return structured.Features{
		AdminAccess:             on["adminAccess"],
		CompatibilityGroups:     on["compatibilityGroups"],
		ConsumableCapacity:      on["consumableCapacity"],
		DerivedAttributes:       on["derivedAttributes"],
		DeviceBindingAndStatus:  on["deviceBindingAndStatus"],
		DeviceTaints:            on["deviceTaints"],
		FractionalCapacityRange: on["fractionalCapacityRange"],
		ListTypeAttributes:      on["listTypeAttributes"],
		OptionalNodeOperations:  on["optionalNodeOperations"],
		PartitionableDevices:    on["partitionableDevices"],
		PrioritizedList:         on["prioritizedList"],
	}
}

// state derives what is in use from the allocated claims, as the scheduler does.
func state(claims []*resourceapi.ResourceClaim, on map[string]bool) structured.AllocatedState {
	s := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil || !on["consumableCapacity"] {
				s.AllocatedDevices.Insert(id)
				continue
			}
			s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return s
}

func solve(c *scenario) answer {
	result := answer{Name: c.Name}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cache := cel.NewCache(100, cel.Features{
		EnableConsumableCapacity: c.Features["consumableCapacity"],
		EnableListTypeAttributes: c.Features["listTypeAttributes"],
	})
	allocator, err := structured.NewAllocator(
		ctx, features(c.Features), state(c.AllocatedClaims, c.Features), c.Classes, c.Slices, cache)
	if err == nil {
		result.Results, err = allocator.Allocate(ctx, c.Node, c.ClaimsToAllocate)
		// The type of the statistics is internal.
		if method := reflect.ValueOf(allocator).MethodByName("GetStats"); method.IsValid() {
			result.Steps = method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
		}
	}
	switch {
	case ctx.Err() != nil:
		result.Outcome = "undecided"
	case err != nil:
		result.Outcome, result.Error = "error", err.Error()
		result.Fatal = !errors.Is(err, structured.ErrFailedAllocationOnNode)
	case result.Results == nil:
		result.Outcome = "unschedulable"
	default:
		result.Outcome = "allocated"
	}
	return result
}

func run() error {
	// One implementation for all cases: the one that supports every feature.
	structured.EnableAllocators("experimental")
	klog.SetLogger(klog.Logger{})
	decoder := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	out := bufio.NewWriter(os.Stdout)
	defer func() { _ = out.Flush() }()
	encoder := json.NewEncoder(out)
	for decoder.More() {
		var c scenario
		if err := decoder.Decode(&c); err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		if err := encoder.Encode(solve(&c)); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
