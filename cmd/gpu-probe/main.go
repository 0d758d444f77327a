// Command gpu-probe runs in the containers of a sandbox's real node and says what they were given.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

func main() { os.Exit(probe.Main(os.Args[1:], os.Stdout, os.Stderr)) }
