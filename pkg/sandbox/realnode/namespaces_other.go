//go:build !linux

package realnode

import (
	"fmt"
	"os/exec"
)

// This code is never reached: [Machine.CheckSupport] comes before it.

func startWithNamespaces(*exec.Cmd) error { return fmt.Errorf("%w: namespaces need Linux", ErrCannot) }

func within(int, func() error) error { return fmt.Errorf("%w: namespaces need Linux", ErrCannot) }

func isOverlay(string) bool { return false }
