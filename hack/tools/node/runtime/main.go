// Command runtime is containerd or its client ctr, depending on the name under which it is started. The shim is a separate program: it starts every
// plugin that is linked into it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	"github.com/containerd/containerd/v2/cmd/containerd/command"
	"github.com/containerd/containerd/v2/cmd/ctr/app"
)

func main() {
	run := command.App().Run
	if filepath.Base(os.Args[0]) == "ctr" {
		run = app.New().Run
	}
	if err := run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}
