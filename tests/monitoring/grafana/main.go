// Decodes dashboards into Grafana's own types: unknown fields and values outside of its limits are errors. Prints one
// line for each error; the exit status is 1 if there are any.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	status := 0
	for _, file := range os.Args[1:] {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = check(raw)
		}
		if err != nil {
			fmt.Printf("%s: %v\n", file, err)
			status = 1
		}
	}
	os.Exit(status)
}

func check(raw []byte) error {
	var found dashboard.Dashboard
	if err := found.UnmarshalJSONStrict(raw); err != nil {
		return err
	}
	return found.Validate()
}
