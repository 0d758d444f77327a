// Package gang tests jobs on several nodes from their YAML to their end: a real control plane with its controllers,
// simulated nodes, and the scheduler of the manifests as a process of its own.
package gang

import (
	"context"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share: two nodes with eight GPUs each, in the pool of that name.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	writer  *submit.Client
	// scheduler is the one that leads.
	scheduler *sandbox.Process
)

const (
	nodeCount   = 2
	gpusPerNode = 8
)

func TestMain(m *testing.M) {
	fleet := sandbox.Fleet{Groups: []sandbox.NodeGroup{{
		NamePrefix: "gang", Count: nodeCount, GPUsPerNode: gpusPerNode, GPUType: "A100-80G", Interconnect: "nvlink",
		GPUMemory: resource.MustParse("80Gi"), CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}}}
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if writer, err = submit.Connect(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}
