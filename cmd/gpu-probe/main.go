// Command gpu-probe runs in the containers of a sandbox's real node and reports their devices.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

func main() { os.Exit(probe.Main(os.Args[1:], os.Stdout, os.Stderr)) }
