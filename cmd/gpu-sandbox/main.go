// Command gpu-sandbox runs a Kubernetes cluster with simulated GPU nodes on this machine.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/sandbox/command"
)

func main() { os.Exit(command.Main()) }
