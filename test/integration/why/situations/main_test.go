// Package situations makes the situations in which jobs do not run, each for real: on a real control plane, with the real
// scheduler. It asks gpuctl why, carries out what the answer advises, and nothing else, and sees that the job runs then.
//
// The advice is carried out as data: [diagnosis.Step] says what to do to what, and an executor stands in for the user and
// the administrators. What only they know, such as the right name of an image, the situation says.
package situations

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// atOnce is how many situations are made at the same time. They mostly wait: for back-offs and for each other's answers.
const atOnce = "8"

// The cluster that all situations share, and the kubelets of the nodes on which containers come to grief.
var (
	cluster   *sandbox.Sandbox
	scheduler *sandbox.Process
	client    kubernetes.Interface
	kubelets  *kubelet
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true, Kwok: true}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.ApplyManifests(ctx, manifests.FS, "policy"); err != nil {
		return err
	}
	kubelets = newKubelet(client)
	go kubelets.run(context.Background()) // it ends with the process
	return startScheduler(ctx)
}

func startScheduler(ctx context.Context) (err error) {
	scheduler, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
}
