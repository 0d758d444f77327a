// Package integration tests our scheduler, as a process of its own under its own identity, against a real API server.
package integration

import (
	"context"
	"fmt"
	"os"
	"testing"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// cluster is the API server that all tests of the package share, and scheduler the process that places their pods.
// Each test works in a namespace and with nodes of its own, and takes them away again.
var (
	cluster   *sandbox.Sandbox
	scheduler *sandbox.Process
)

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(checked{m}, sandbox.Options{}, func(ctx context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		if err := cluster.InstallScheduler(ctx); err != nil {
			return err
		}
		scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
		return err
	}))
}

// checked are the tests, and then a look at how their pods were woken up.
type checked struct{ tests *testing.M }

func (c checked) Run() int {
	code := c.tests.Run()
	if err := checkWakeUps(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		return 1
	}
	return code
}
