// Command gpu-controller handles events after placement: jobs that lost their place, and nodes that died.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/controller/command"
)

func main() { os.Exit(command.Main()) }
