// Command gpu-agent gives containers of a node the GPUs that gpu-scheduler chose for their pods.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/agent/command"
)

func main() { os.Exit(command.Main()) }
