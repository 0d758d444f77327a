// Command gpu-scheduler is kube-scheduler with our plugins: same flags, same configuration, same endpoints. In addition it fences its leader, so
// that no other process can bind pods.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/cmd/gpu-scheduler/command"
)

func main() { os.Exit(command.Main()) }
