// Package chaos kills and freezes the leading scheduler, again and again, while pods are placed, and holds the promises
// of placement against every revision of the history. docs/failover.md has the figures.
package chaos

import (
	"context"
	"flag"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// Each round is 50 pods: with 20 rounds a test places 1,000.
var (
	kills = flag.Int("kills", 3, "how often the leader is killed")
	stops = flag.Int("stops", 3, "how often the leader is stopped past its lease and continued")
	// Each round is 40 pods.
	losses = flag.Int("losses", shortLosses, "how often the API server is away while answers are lost")
)

const shortLosses = 2

// The cluster that all tests share. Each places its pods in a namespace of its own.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(sandboxtest.Main(m, sandbox.Options{}, func(ctx context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
			return err
		}
		return cluster.InstallScheduler(ctx)
	}))
}
