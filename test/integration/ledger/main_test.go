// Package ledger holds what gpu-ledger writes down against the history of a real API server: jobs run, end, are deleted and
// lose their nodes, the scheduler and the ledger are killed, and each holding must be as it was, to the second.
package ledger

import (
	"context"
	"flag"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// kills is how often the ledger, and each time the scheduler with it, is killed.
var kills = flag.Int("kills", 4, "how often the ledger and the leading scheduler are killed")

// The cluster that all tests share.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	writer  *submit.Client
)

const (
	pool = "p"
	// linePool has one node.
	linePool = "line"
	gpuType  = "A100-80G"
)

func TestMain(m *testing.M) {
	flag.Parse()
	nodes := sandbox.NodeGroup{
		NamePrefix: "n", Pool: pool, Count: 10, GPUsPerNode: 8, GPUType: gpuType, Interconnect: "nvlink",
		GPUMemory: resource.MustParse("80Gi"), CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}
	one := nodes
	one.NamePrefix, one.Pool, one.Count = "line", linePool, 1
	fleet := sandbox.Fleet{Groups: []sandbox.NodeGroup{nodes, one}}
	options := sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet}
	os.Exit(sandboxtest.Main(m, options, func(ctx context.Context, s *sandbox.Sandbox) (err error) {
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
		return cluster.InstallLedger(ctx)
	}))
}
