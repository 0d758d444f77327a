// Command gpu-controller looks after what the scheduler has placed: jobs that lost their place, and nodes that died.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/controller/command"
)

func main() { os.Exit(command.Main()) }
