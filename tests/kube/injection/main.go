// Command injection applies CDI devices to a container as containerd and CRI-O do, with the library that both use: it
// finds the devices' names in the folder of CDI specs, and changes the container's configuration.
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
