// Package shipped has a node die under gpu-controller with the arguments of the manifests, and no others: what the sandbox shows faster, as
// its controller waits a tenth as long, is what an installation does.
package shipped

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

var cluster clustertest.Cluster

func TestMain(m *testing.M) {
	cluster.Fleet = clustertest.Pools(1, 10) // of which two may be taken for dead at once
	cluster.Prepare = func(ctx context.Context) error {
		if err := cluster.InstallController(ctx); err != nil {
			return err
		}
		args, err := shippedArgs()
		if err != nil {
			return err
		}
		_, err = cluster.StartController(ctx, sandbox.ControllerOptions{Args: args})
		return err
	}
	cluster.Main(m)
}

// shippedArgs are the arguments of the manifest but for the addresses, of which a process has its own.
func shippedArgs() (out []string, err error) {
	text, err := manifests.FS.ReadFile("controller/deployment.yaml")
	if err != nil {
		return nil, err
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(text, &deployment); err != nil {
		return nil, err
	}
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if !strings.Contains(arg, "-bind-address=") {
			out = append(out, arg)
		}
	}
	return out, nil
}

// TestJobsOfADeadNodeRunElsewhereInFiveMinutes: the power of two nodes is cut, one with a job and one with a member of a gang. Both run elsewhere
// within five minutes, the gang as a whole, and nothing runs twice when the nodes come back. It takes as long, so BOUNDS=docs asks for it.
func TestJobsOfADeadNodeRunElsewhereInFiveMinutes(t *testing.T) {
	if os.Getenv("BOUNDS") != "docs" {
		t.Skip("takes six minutes: BOUNDS=docs asks for it")
	}
	e := cluster.NewEnvWithPool(t)
	gang := e.Start(clustertest.Job{Name: "gang", GPUs: 8, Nodes: 2})
	single := e.Start(clustertest.Job{Name: "single", GPUs: 8})
	dead := map[string]string{"gang": gang[0].Spec.NodeName, "single": single[0].Spec.NodeName}
	time.Sleep(12 * time.Second) // until then a node counts as one that starts
	died := time.Now()
	for _, node := range dead {
		if err := sandbox.StopKubelet(t.Context(), cluster.Client, node, false); err != nil {
			t.Fatal(err)
		}
	}
	for name, count := range map[string]int{"single": 1, "gang": 2} {
		e.Within(5*time.Minute-time.Since(died), name+" to run elsewhere", func(ctx context.Context) (bool, error) {
			return runs(ctx, t, name, e.Namespace, dead[name]) == count, nil
		})
		t.Logf("%s ran elsewhere %s after the power cut", name, time.Since(died).Round(time.Second))
	}
	for _, node := range dead {
		if err := sandbox.StartKubelet(t.Context(), cluster.Client, node); err != nil {
			t.Fatal(err)
		}
	}
	e.Stays("nothing to run twice", 20*time.Second, func() bool {
		return runs(t.Context(), t, "single", e.Namespace, "") == len(single) && runs(t.Context(), t, "gang", e.Namespace, "") == len(gang)
	})
}

// runs is how many pods of a job run, but for those of a node.
func runs(ctx context.Context, t *testing.T, job, namespace, but string) (count int) {
	t.Helper()
	pods, err := cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "g8s.host/job=" + job})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && pod.Spec.NodeName != but {
			count++
		}
	}
	return count
}
