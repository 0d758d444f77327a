// Package gangs holds against the real API server and the real scheduler what a user can write into PodGroups and into the
// pods of gangs: whatever it is, one gang waits, with a reason, and the pods of others are placed within 2 seconds.
//
// Two sets of bounds are tried, each alone: those of the CRD that we ship, and those of the scheduler on a cluster whose
// CRD has none.
package gangs

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share. Each works in namespaces of its own.
var (
	cluster   *sandbox.Sandbox
	client    kubernetes.Interface
	untyped   dynamic.Interface
	scheduler *sandbox.Process
)

// The pools: hostile gangs are tried in one, the pods of others in the other. A pool has two nodes of 8 GPUs.
const (
	hostile = "hostile"
	others  = "others"
)

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, sandbox.Options{}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if untyped, err = dynamic.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	for _, pool := range []string{hostile, others} {
		for _, name := range []string{pool + "-1", pool + "-2"} {
			node := fixture.Node(name).Pool(pool).GPUs(8, "T4").Obj()
			if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return startScheduler(ctx)
}

func startScheduler(ctx context.Context) (err error) {
	scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}
