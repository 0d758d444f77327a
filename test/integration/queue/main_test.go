// Package queue tests gpuctl queue, create and get jobs where jobs do not start, against a cluster with controllers. The
// scheduler is a process of its own, with the shipped configuration.
package queue

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share.
var (
	cluster   *sandbox.Sandbox
	scheduler *sandbox.Process
	client    kubernetes.Interface
)

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}
