// Package gang tests jobs on several nodes from their YAML to their end: a real control plane with its controllers,
// simulated nodes, and the scheduler of the manifests as a process of its own.
package gang

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// The cluster that all tests share: two nodes with eight GPUs each, in the pool of that name.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	writer  *submit.Client
)

const (
	nodeCount   = 2
	gpusPerNode = 8
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests of gangs:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	fleet := sandbox.Fleet{Groups: []sandbox.NodeGroup{{
		NamePrefix: "gang", Count: nodeCount, GPUsPerNode: gpusPerNode, GPUType: "A100-80G", Interconnect: "nvlink",
		GPUMemory: resource.MustParse("80Gi"), CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}}}
	options := sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet, Progress: os.Stderr}
	if cluster, err = sandbox.Start(ctx, options); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := cluster.InstallScheduler(ctx); err != nil {
		return 1, err
	}
	if _, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return 1, err
	}
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return 1, err
	}
	if writer, err = submit.Connect(cluster.RESTConfig()); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
