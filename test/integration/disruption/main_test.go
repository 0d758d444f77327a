// Package disruption takes running jobs their pods and nodes away, in every way that a cluster knows, and waits until
// they run again: a real control plane with its controllers, simulated nodes, and the scheduler of the manifests as a
// process of its own. What is tested here is what docs/disruptions.md promises.
package disruption

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share. Each test has a pool of its own in it, so that they run side by side: most of their
// time they wait for Kubernetes.
var (
	cluster   *sandbox.Sandbox
	client    kubernetes.Interface
	writer    *submit.Client
	scheduler *sandbox.Process
)

const (
	pools        = 40
	nodesPerPool = 3
	gpusPerNode  = 8
)

func poolName(number int) string { return fmt.Sprintf("p%02d", number) }

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(pools)); err != nil {
		panic(err)
	}
	var fleet sandbox.Fleet
	for i := range pools {
		fleet.Groups = append(fleet.Groups, sandbox.NodeGroup{
			// A zone for each pool: Kubernetes bounds how many nodes of a zone it empties in a time.
			NamePrefix: poolName(i), Pool: poolName(i), Zone: poolName(i), Count: nodesPerPool,
			GPUsPerNode: gpusPerNode, GPUType: "A100-80G", Interconnect: "nvlink", GPUMemory: resource.MustParse("80Gi"),
			CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
		})
	}
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
