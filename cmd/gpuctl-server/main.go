// Command gpuctl-server serves gpuctl's REST API.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/server/command"
)

func main() { os.Exit(command.Main()) }
