package queue

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/cli"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// patience is how long a test waits for what should come at once on an idle machine.
const patience = bounds.Patience

// env is one test's part of the cluster: a namespace, and a pool with nodes of its own.
type env struct {
	*testing.T
	namespace, pool string
	kubeconfig      string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "queue-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, namespace: namespace.Name, pool: "pool-" + namespace.Name, kubeconfig: cluster.Kubeconfig()}
	e.eventually("the namespace to have its service account", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(e.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	t.Cleanup(func() {
		for _, command := range []string{"jobs", "deployments", "pods"} {
			_, _ = cluster.RunKubectl(context.Background(), "-n", e.namespace, "delete", command, "--all", "--now", "--wait=false")
		}
	})
	return e
}

func (e *env) eventually(what string, done func(context.Context) bool) {
	e.Helper()
	err := wait.PollUntilContextTimeout(e.Context(), 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		e.Fatalf("waiting for %s: %v", what, err)
	}
}

// node names a node of this test.
func (e *env) node(name string) *fixture.NodeBuilder {
	return fixture.Node(e.namespace + "-" + name).Pool(e.pool)
}

// createNode registers a node, and waits until the controllers have let pods onto it.
func (e *env) createNode(node *corev1.Node) {
	e.Helper()
	if _, err := client.CoreV1().Nodes().Create(e.Context(), node, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		_ = client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	})
	e.eventually("node "+node.Name+" to lose its taint", func(ctx context.Context) bool {
		got, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		return err == nil && len(got.Spec.Taints) == len(node.Spec.Taints)+boolToInt(node.Spec.Unschedulable)
	})
}

func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// job is the YAML of a training job in the test's pool.
func (e *env) job(name string, gpus, nodes int) string {
	return fmt.Sprintf("kind: training\njob: {name: %s}\nenvironment: {image: busybox, command: [run]}\n"+
		"resources: {pool: %s, gpu: %d, nodes: %d, cpu: 1, memory: 1Gi}\n", name, e.pool, gpus, nodes)
}

// bound makes a quota of GPUs.
func (e *env) bound(name, gpus string) {
	e.Helper()
	_, err := client.CoreV1().ResourceQuotas(e.namespace).Create(e.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests." + names.ResourceGPU: resource.MustParse(gpus)}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.eventually("the quota to be counted", func(ctx context.Context) bool {
		got, err := client.CoreV1().ResourceQuotas(e.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) > 0
	})
}

// gpuctl runs the command line, and returns its exit code and what it says.
func (e *env) gpuctl(stdin string, args ...string) (code int, stdout, stderr string) {
	e.Helper()
	streams, out, errors := cli.TestIOStreams(stdin)
	all := append([]string{"gpuctl", "--kubeconfig", e.kubeconfig, "-n", e.namespace}, args...)
	code = cli.Run(e.Context(), cli.NewFactory(streams), all)
	return code, out.String(), errors.String()
}

// expect runs a command that must end with a code, and say a text on either stream.
func (e *env) expect(code int, text, stdin string, args ...string) string {
	e.Helper()
	got, stdout, stderr := e.gpuctl(stdin, args...)
	if got != code || !strings.Contains(stdout+stderr, text) {
		e.Errorf("gpuctl %s: exit code %d, want %d, with %q\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, text, stdout, stderr)
	}
	return stdout
}

// entry is a job in the queue, nil if it is in none.
func (e *env) entry(job string) *queue.Entry {
	e.Helper()
	_, stdout, stderr := e.gpuctl("", "queue", "-o", "json")
	var list struct {
		Items []queue.Entry `json:"items"`
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		e.Fatalf("%v\n%s", err, stderr)
	}
	for _, entry := range list.Items {
		if entry.Name == job {
			return &entry
		}
	}
	return nil
}

// starts is what the column STARTS says of a job.
func (e *env) starts(job string) string {
	e.Helper()
	_, stdout, _ := e.gpuctl("", "queue", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || len(rows) == 0 {
		e.Fatalf("reading the queue: %v\n%s", err, stdout)
	}
	name, starts := slices.Index(rows[0], "JOB"), slices.Index(rows[0], "STARTS")
	if name < 0 || starts < 0 {
		e.Fatalf("the queue has the columns %v", rows[0])
	}
	for _, row := range rows[1:] {
		if row[name] == job {
			return row[starts]
		}
	}
	return ""
}
