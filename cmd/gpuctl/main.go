// Command gpuctl submits GPU jobs to Kubernetes, and shows them, their pools and their nodes.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/cli"
)

func main() { os.Exit(cli.Main(os.Args, cli.SystemStreams())) }
