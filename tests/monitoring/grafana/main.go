// Reads dashboards as Grafana's own types have them: fields that it does not know are refused, and so are values
// outside its bounds. Names what is wrong, one line each; exit status 1 if anything is.
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
