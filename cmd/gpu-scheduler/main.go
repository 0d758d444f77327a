// Command gpu-scheduler is kube-scheduler with our plugins: same flags, same configuration, same endpoints. What it
// does beside is fence its leader, so that no other process can bind pods.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // for metrics of API requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // for the metric kubernetes_build_info

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // for the arguments of the plugins
)

func main() {
	if err := setFeatureDefaults(); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-scheduler:", err)
		os.Exit(1)
	}
	os.Exit(cli.Run(newCommand()))
}
