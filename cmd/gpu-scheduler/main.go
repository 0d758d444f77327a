// Command gpu-scheduler is kube-scheduler with our plugins: same flags, same configuration, same endpoints.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // for metrics of API requests
	_ "k8s.io/component-base/metrics/prometheus/version"  // for the metric kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // for the arguments of the plugins
	"g8s.host/gpu-scheduler/plugins"
)

func main() {
	var options []app.Option
	for name, factory := range plugins.Registry(plugins.Dependencies{}) {
		options = append(options, app.WithPlugin(name, factory))
	}
	command := app.NewSchedulerCommand(options...)
	command.Use = "gpu-scheduler"
	os.Exit(cli.Run(command))
}
