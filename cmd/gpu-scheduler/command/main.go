// Package command is the command line of gpu-scheduler.
package command

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // for metrics of API requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // for the metric kubernetes_build_info

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // for the arguments of the plugins
)

// Main runs the program and returns its exit code.
func Main() int {
	if err := setFeatureDefaults(); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-scheduler:", err)
		return 1
	}
	return cli.Run(newCommand())
}
