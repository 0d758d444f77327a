// Package integration tests our scheduler, as a process of its own under its own identity, against a real API server.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// cluster is the API server that all tests of the package share, and scheduler the process that places their pods.
// Each test works in a namespace and with nodes of its own, and takes them away again.
var (
	cluster   *sandbox.Sandbox
	scheduler *sandbox.Process
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if cluster, err = sandbox.Start(ctx, sandbox.Options{Progress: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := cluster.InstallScheduler(ctx); err != nil {
		return 1, err
	}
	if scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return code, checkWakeUps()
}
