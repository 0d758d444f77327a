// Command gpu-ledger records the use of GPUs over time, and answers queries about it.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/ledger/command"
)

func main() { os.Exit(command.Main()) }
