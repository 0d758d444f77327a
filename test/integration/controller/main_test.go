// Package controller has jobs disrupted and nodes die under gpu-controller: a real control plane with its controllers,
// simulated nodes, and the scheduler and the controller of the manifests as processes of their own, each with its own
// rights. What is tested here is what docs/recovery.md promises.
package controller

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// The cluster that all tests share. Each test has a pool of its own in it.
var (
	cluster    clustertest.Cluster
	controller *sandbox.Process
)

const nodesPerPool = 5

func TestMain(m *testing.M) {
	flag.Parse()
	// For the tests that take one or several, and for the faults.
	cluster.Fleet = clustertest.Pools(60+*faults+*situations, nodesPerPool)
	cluster.Prepare = prepare
	cluster.Parallel()
	cluster.Main(m)
}

func prepare(ctx context.Context) (err error) {
	if err := cluster.InstallController(ctx); err != nil {
		return err
	}
	if err := receiver.open(ctx); err != nil {
		return err
	}
	controller, err = startController(ctx, sandbox.ControllerName)
	return err
}

// controllers counts those that were started after the first one, for their names.
var controllers atomic.Int32

// startController runs the controller with its fastest safe setting, and gives nodes back soon.
func startController(ctx context.Context, name string) (*sandbox.Process, error) {
	return cluster.StartController(ctx, sandbox.ControllerOptions{Name: name, Args: []string{
		"--out-of-service-after=40s", "--suspect-back-off=8s", "--suspect-conditions=XIDFatal", "--advice-after=5s", "--advice-every=5s",
		"--notify-private-addresses=127.0.0.0/8",
	}, Env: []string{"SSL_CERT_FILE=" + receiver.certificate}})
}
