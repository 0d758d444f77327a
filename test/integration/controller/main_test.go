// Package controller has jobs disrupted and nodes die under gpu-controller: a real control plane with its controllers,
// simulated nodes, and the scheduler and the controller of the manifests as processes of their own, each with its own
// rights. What is tested here is what docs/recovery.md promises.
package controller

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share. Each test has a pool of its own in it, so that they run side by side.
var (
	cluster    *sandbox.Sandbox
	client     kubernetes.Interface
	writer     *submit.Client
	controller *sandbox.Process
)

const (
	nodesPerPool = 5
	gpusPerNode  = 8
)

// pools is how many there are: for the tests that take one or several, and for the faults.
var pools = 40

func poolName(number int) string { return fmt.Sprintf("p%03d", number) }

func TestMain(m *testing.M) {
	flag.Parse()
	pools += *faults + *situations
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
	if err := cluster.InstallController(ctx); err != nil {
		return err
	}
	if _, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
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
	}})
}
