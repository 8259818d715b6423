// Upstream's side of the benchmark: reads the clusters and pods that bench/shapes.py writes, places the pods with the
// allocator of kube-scheduler, and prints one JSON line per case.
//
// For each pod it does what the scheduler plugin does, on one goroutine: copy the current state, create an allocator
// over all slices, then try node after node from a rotating start until one fits.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type benchCase struct {
	Name string `json:"name"`
	// Series: once a case did not finish, the later (larger) ones of its series are skipped.
	Series string `json:"series"`
	// Pods is how many pods arrive, one after the other, each with Claims.
	Pods   int                          `json:"pods"`
	Claims []*resourceapi.ResourceClaim `json:"claims"`
	// Background are the claims of another pod that is placed, untimed, before each one, so that the cluster changes.
	Background []*resourceapi.ResourceClaim `json:"background"`
	// LimitSeconds ends the case early; the pod in progress then counts as unfinished.
	LimitSeconds float64 `json:"limitSeconds"`
}

type cluster struct {
	Features structured.Features          `json:"features"`
	Nodes    []*v1.Node                   `json:"nodes"`
	Classes  classes                      `json:"classes"`
	Slices   []*resourceapi.ResourceSlice `json:"slices"`
	Cases    []benchCase                  `json:"cases"`
}

type outcome struct {
	Name string `json:"name"`
	// Seconds per finished pod.
	Seconds []float64 `json:"seconds"`
	// Placed, per finished pod: the node and then driver/pool/device of each result; empty when none fits.
	Placed [][]string `json:"placed"`
	// Unfinished is the time spent on the pod during which the limit was reached, or 0.
	Unfinished float64 `json:"unfinished"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no device class %s", name)
}

// snapshot copies the state, as the plugin's claim tracker does for each pod.
func snapshot(s structured.AllocatedState) structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         s.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: s.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       s.AggregatedCapacity.Clone(),
	}
}

// side is one case in progress.
type side struct {
	cluster  *cluster
	celCache *cel.Cache
	state    structured.AllocatedState
	// next is the node at which the search for the next pod begins.
	next int
}

// place finds the first node that fits and records the allocation there. It returns the node and the devices, or
// nothing if no node fits.
func (s *side) place(ctx context.Context, claims []*resourceapi.ResourceClaim) ([]string, error) {
	c := s.cluster
	allocator, err := structured.NewAllocator(ctx, c.Features, snapshot(s.state), c.Classes, c.Slices, s.celCache)
	if err != nil {
		return nil, err
	}
	placed := []string{}
	start := s.next
	for i := range c.Nodes {
		index := (start + i) % len(c.Nodes)
		s.next = (index + 1) % len(c.Nodes)
		results, err := allocator.Allocate(ctx, c.Nodes[index], claims)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", c.Nodes[index].Name, err)
		}
		if len(results) != len(claims) {
			continue
		}
		placed = append(placed, c.Nodes[index].Name)
		for _, allocation := range results {
			for _, device := range allocation.Devices.Results {
				placed = append(placed, device.Driver+"/"+device.Pool+"/"+device.Device)
				s.state.AllocatedDevices.Insert(structured.MakeDeviceID(device.Driver, device.Pool, device.Device))
			}
		}
		break
	}
	return placed, nil
}

func run(c *cluster, b benchCase) (outcome, error) {
	limit := time.Duration(b.LimitSeconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s := side{
		cluster: c,
		celCache: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: c.Features.ConsumableCapacity,
			EnableListTypeAttributes: c.Features.ListTypeAttributes,
		}),
		state: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
	}
	result := outcome{Name: b.Name, Seconds: []float64{}, Placed: [][]string{}}
	for range b.Pods {
		if len(b.Background) > 0 {
			if _, err := s.place(context.Background(), b.Background); err != nil {
				return result, fmt.Errorf("%s: %w", b.Name, err)
			}
		}
		begin := time.Now()
		placed, err := s.place(ctx, b.Claims)
		if ctx.Err() != nil {
			result.Unfinished = time.Since(begin).Seconds()
			return result, nil
		}
		if err != nil {
			return result, fmt.Errorf("%s: %w", b.Name, err)
		}
		result.Seconds = append(result.Seconds, time.Since(begin).Seconds())
		result.Placed = append(result.Placed, placed)
	}
	return result, nil
}

// selectors are CEL expressions and the devices on which each is evaluated.
type selectors struct {
	Driver      string               `json:"driver"`
	Expressions []string             `json:"expressions"`
	Devices     []resourceapi.Device `json:"devices"`
}

const rounds = 20

// runSelectors reports, per expression, the time of compiling it and of evaluating it on one device: each round's mean.
func runSelectors(path string, out *json.Encoder) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s selectors
	if err := json.Unmarshal(content, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	for _, expression := range s.Expressions {
		compile := outcome{Name: "compile " + expression}
		evaluate := outcome{Name: "evaluate " + expression}
		for range rounds {
			begin := time.Now()
			compiled := compiler.CompileCELExpression(expression, cel.Options{})
			if compiled.Error != nil {
				return fmt.Errorf("%s: %s", expression, compiled.Error.Detail)
			}
			compile.Seconds = append(compile.Seconds, time.Since(begin).Seconds())
			begin = time.Now()
			for _, device := range s.Devices {
				input := cel.Device{Driver: s.Driver, Attributes: device.Attributes, Capacity: device.Capacity}
				if _, _, err := compiled.DeviceMatches(context.Background(), input); err != nil {
					return fmt.Errorf("%s: %w", expression, err)
				}
			}
			evaluate.Seconds = append(evaluate.Seconds, time.Since(begin).Seconds()/float64(len(s.Devices)))
		}
		if err := errors.Join(out.Encode(compile), out.Encode(evaluate)); err != nil {
			return err
		}
	}
	return nil
}

func runFile(path string, out *json.Encoder) error {
	hopeless := sets.New[string]()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// One cluster after the other, so that only one is held in memory.
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for decoder.More() {
		var c cluster
		if err := decoder.Decode(&c); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, b := range c.Cases {
			if hopeless.Has(b.Series) {
				continue
			}
			result, err := run(&c, b)
			if err != nil {
				return err
			}
			if b.Series != "" && len(result.Seconds) == 0 {
				hopeless.Insert(b.Series)
			}
			if err := out.Encode(result); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	out := json.NewEncoder(os.Stdout)
	for _, path := range os.Args[1:] {
		run := runFile
		if strings.HasSuffix(path, "selectors.json") {
			run = runSelectors
		}
		if err := run(path, out); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
}
