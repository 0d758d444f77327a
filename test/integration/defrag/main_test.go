// Package defrag makes moves of running pods on a real control plane with its controllers, simulated nodes and the
// scheduler as a process of its own, and has them fail in every way.
package defrag

import (
	"context"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// client is that of the cluster that all tests share: three nodes with 8 GPUs and 64 cores each. admin is what it
// connects with.
var (
	client kubernetes.Interface
	admin  *rest.Config
)

const (
	first  = "node-01"
	second = "node-02"
	third  = "node-03"
)

func TestMain(m *testing.M) {
	fleet := sandbox.Fleet{Groups: []sandbox.NodeGroup{{
		NamePrefix: "node", Count: 3, GPUsPerNode: 8, GPUType: "A100-80G", Interconnect: "nvlink",
		GPUMemory: resource.MustParse("80Gi"), CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}}}
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet, Restart: true}, prepare))
}

func prepare(ctx context.Context, cluster *sandbox.Sandbox) (err error) {
	admin = cluster.RESTConfig()
	if client, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	_, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}
