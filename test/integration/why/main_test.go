// Package why tests gpuctl why against a cluster with controllers: for each reason that a job does not run, that it
// names the cause and says what to change. The scheduler is a process of its own, with the shipped configuration.
package why

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share, and the port on which its scheduler explains itself.
var (
	cluster   *sandbox.Sandbox
	scheduler *sandbox.Process
	client    kubernetes.Interface
	port      int
)

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if port, err = freePort(ctx); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	return startScheduler(ctx)
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
