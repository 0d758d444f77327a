// Package why tests gpuctl why against a cluster with controllers: for each reason that a job does not run, that it
// names the cause and says what to change. The scheduler is a process of its own, with the shipped configuration.
package why

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// The cluster that all tests share, and the port on which its scheduler explains itself.
var (
	cluster   *sandbox.Sandbox
	scheduler *sandbox.Process
	client    kubernetes.Interface
	port      int
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests of gpuctl why:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if cluster, err = sandbox.Start(ctx, sandbox.Options{ControllerManager: true, Progress: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := cluster.InstallScheduler(ctx); err != nil {
		return 1, err
	}
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return 1, err
	}
	if port, err = freePort(ctx); err != nil {
		return 1, err
	}
	if err := startScheduler(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func startScheduler(ctx context.Context) (err error) {
	scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Args: explainOn(port)})
	return err
}

func explainOn(port int) []string { return []string{"--explain-secure-port=" + strconv.Itoa(port)} }

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
