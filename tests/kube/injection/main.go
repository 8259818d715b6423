// Command injection does what containerd and CRI-O do with the names that a kubelet gives them, by the library that both
// use: look them up in the folder of CDI specs, and change the container accordingly.
//
//	injection FOLDER NAME… <config.json >config.json
package main

import (
	"encoding/json"
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	container := &oci.Spec{}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(os.Args[1]), cdi.WithAutoRefresh(false))
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(container)
	}
	if err == nil {
		_, err = cache.InjectDevices(container, os.Args[2:]...)
	}
	for path, errs := range cache.GetErrors() {
		fmt.Fprintln(os.Stderr, path, errs)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(container)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
