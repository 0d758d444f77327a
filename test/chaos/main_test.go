// Package chaos kills and freezes the leading scheduler, again and again, while pods are placed, and holds the promises
// of placement against every revision of the history. docs/failover.md has the figures.
package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// Each round is 50 pods: with 20 rounds a test places 1,000.
var (
	kills = flag.Int("kills", 3, "how often the leader is killed")
	stops = flag.Int("stops", 3, "how often the leader is stopped past its lease and continued")
)

// The cluster that all tests share. Each places its pods in a namespace of its own.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos tests:", err)
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
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
