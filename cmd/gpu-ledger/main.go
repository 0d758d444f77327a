// Command gpu-ledger writes down who holds which GPU from when to when, and answers questions about it.
package main

import (
	"os"

	"g8s.host/gpu-scheduler/pkg/ledger/command"
)

func main() { os.Exit(command.Main()) }
