// Package clustertest is the set-up that integration tests share: a sandbox with the scheduler of the manifests in it, a
// namespace and a pool for each test, jobs submitted as gpuctl does, and a history of their pods to wait on.
package clustertest

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

// Cluster is what all tests of a package share. Its fields but for Fleet, Tools and Prepare are there once Main has begun.
type Cluster struct {
	*sandbox.Sandbox
	Client kubernetes.Interface
	Writer *submit.Client
	// Scheduler is the one that leads.
	Scheduler *sandbox.Process
	// Fleet are the nodes. Each of its groups is a pool for one test.
	Fleet sandbox.Fleet
	// Tools is the folder of the control plane's programs, "" for those of make tools.
	Tools string
	// PodGroups has the API server keep Kubernetes' own PodGroups.
	PodGroups bool
	// Prepare does what the tests need besides, before the scheduler starts; nil is nothing.
	Prepare func(ctx context.Context) error

	poolsTaken atomic.Int32
}

// Pools are so many pools of so many nodes with 8 GPUs each.
func Pools(count, nodes int) sandbox.Fleet {
	var fleet sandbox.Fleet
	for i := range count {
		name := fmt.Sprintf("p%03d", i)
		group := NodesWith8GPUs(name, nodes)
		// A zone for each pool: Kubernetes bounds how many nodes of a zone it empties in a time.
		group.Pool, group.Zone = name, name
		fleet.Groups = append(fleet.Groups, group)
	}
	return fleet
}

// NodesWith8GPUs are nodes of no pool.
func NodesWith8GPUs(prefix string, count int) sandbox.NodeGroup {
	return sandbox.NodeGroup{
		NamePrefix: prefix, Count: count, GPUsPerNode: 8, GPUType: "A100-80G", Interconnect: "nvlink",
		GPUMemory: resource.MustParse("80Gi"), CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}
}

// sideBySide is how many tests two cores keep up with, beside another package: forty make each other late.
const sideBySide = 20

// Parallel has tests run side by side: most of their time they wait for Kubernetes. It is called before Main.
func (c *Cluster) Parallel() {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(min(sideBySide, len(c.Fleet.Groups)))); err != nil {
		panic(err) //nolint:forbidigo // TestMain has nobody to return it to
	}
}

// Main starts the cluster, runs the tests on it, stops it and ends the process, as TestMain does.
func (c *Cluster) Main(m *testing.M) {
	options := sandbox.Options{BinDir: c.Tools, ControllerManager: true, Kwok: true, Fleet: &c.Fleet, Restart: true, PodGroups: c.PodGroups}
	os.Exit(sandboxtest.Main(m, options, c.prepare)) //nolint:forbidigo // it is what TestMain does
}

func (c *Cluster) prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	c.Sandbox = s
	if c.Client, err = kubernetes.NewForConfig(s.RESTConfig()); err != nil {
		return err
	}
	if c.Writer, err = submit.Connect(s.RESTConfig()); err != nil {
		return err
	}
	if err := s.InstallScheduler(ctx); err != nil {
		return err
	}
	if c.Prepare != nil {
		if err := c.Prepare(ctx); err != nil {
			return err
		}
	}
	c.Scheduler, err = s.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}
