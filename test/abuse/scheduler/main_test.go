// Package scheduler holds against the real API server and the real scheduler whatever a user, a node's agent or an
// administrator by mistake can write into the objects that the scheduler reads: the pods of others are placed within 2
// seconds all the while, and the scheduler lives on, in bounded memory.
//
// ABUSE=all runs every round, as `make abuse` does; without, a slice of them. ABUSE_SEED repeats a run.
package scheduler

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/abuse"
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

// others is the pool of those who have done nothing wrong.
const others = "others"

// rounds is how many there are.
func rounds(short, long int) int {
	if abuse.All() {
		return long
	}
	return short
}

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, sandbox.Options{}, func(ctx context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		config := cluster.RESTConfig()
		config.QPS = -1
		if client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		if untyped, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
		if err := cluster.InstallScheduler(ctx); err != nil {
			return err
		}
		for _, name := range []string{"others-1", "others-2"} {
			if _, err := client.CoreV1().Nodes().Create(ctx, ofOthers(fixture.Node(name).Pool(others).GPUs(8, "T4").Obj()), metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
		return err
	}))
}
