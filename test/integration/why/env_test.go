package why

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/cli"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// patience is how long a test waits for what should come at once on an idle machine.
const patience = bounds.Patience

// env is one test's part of the cluster: a namespace, and a pool with nodes of its own.
type env struct {
	*testing.T
	namespace, pool string
	nodes           []string
	// kubeconfig is that of who asks: the administrator's, unless a test says otherwise.
	kubeconfig string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "why-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, namespace: namespace.Name, pool: "pool-" + namespace.Name, kubeconfig: cluster.Kubeconfig()}
	t.Cleanup(e.cleanUp)
	e.eventually("the namespace to have its service account", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(e.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return e
}

func (e *env) cleanUp() {
	ctx := context.Background()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := client.BatchV1().Jobs(e.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		e.Error(err)
	}
	if err := client.CoreV1().Pods(e.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		e.Error(err)
	}
	for _, node := range e.nodes {
		if err := client.CoreV1().Nodes().Delete(ctx, node, now); err != nil {
			e.Error(err)
		}
	}
}

func (e *env) eventually(what string, done func(context.Context) bool) {
	e.Helper()
	err := wait.PollUntilContextTimeout(e.Context(), 50*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		e.Fatalf("waiting for %s: %v", what, err)
	}
}

// node names a node of this test.
func (e *env) node(name string) *fixture.NodeBuilder {
	return fixture.Node(e.namespace + "-" + name).Pool(e.pool)
}

// createNodes registers nodes, and waits until the controllers have let pods onto those that are ready.
func (e *env) createNodes(nodes ...*corev1.Node) {
	e.Helper()
	for _, node := range nodes {
		if _, err := client.CoreV1().Nodes().Create(e.Context(), node, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
		e.nodes = append(e.nodes, node.Name)
		if node.Status.Conditions[0].Status != corev1.ConditionTrue {
			continue
		}
		e.eventually("node "+node.Name+" to lose its taint", func(ctx context.Context) bool {
			got, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
			return err == nil && len(got.Spec.Taints) == len(node.Spec.Taints)
		})
	}
}

// hold runs a pod of another job on a node of this test, as if it had been placed there.
func (e *env) hold(node string, gpus int64, cpu ...string) {
	e.Helper()
	pod := fixture.Pod("holder-"+node).GPUs(gpus).Label(names.LabelJob, "holder").Label(names.LabelJobType, "training").Obj()
	pod.Spec.NodeName = e.namespace + "-" + node
	for _, quantity := range cpu {
		setRequest(pod, corev1.ResourceCPU, quantity)
	}
	if _, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// pod is that of the job which cannot run: one container in the test's pool.
func (e *env) pod(gpus int64) *fixture.PodBuilder {
	return fixture.Pod("unused").GPUs(gpus).Pool(e.pool)
}

// exempt frees the namespace of the policies, for a pod that they would refuse.
func (e *env) exempt(pod *corev1.Pod) {
	e.Helper()
	patch := []byte(`{"metadata":{"labels":{"` + names.LabelPolicy + `":"` + names.PolicyExempt + `"}}}`)
	if _, err := client.CoreV1().Namespaces().Patch(e.Context(), e.namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
	template := pod.DeepCopy()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	e.eventually("the namespace to be exempt", func(ctx context.Context) bool {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "tried"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template.Spec}}}
		_, err := client.BatchV1().Jobs(e.namespace).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
}

// submit creates a job, called job, with pods of a form.
func (e *env) submit(pod *corev1.Pod) {
	e.Helper()
	e.create(pod, func(*batchv1.JobSpec) {})
}

func (e *env) create(pod *corev1.Pod, change func(*batchv1.JobSpec)) {
	e.Helper()
	labels := map[string]string{names.LabelJob: "job", names.LabelJobType: "training"}
	for key, value := range labels {
		pod.Labels[key] = value
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job", Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec,
			},
		},
	}
	change(&job.Spec)
	if _, err := client.BatchV1().Jobs(e.namespace).Create(e.Context(), job, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// pods returns those of the job.
func (e *env) pods(ctx context.Context) []corev1.Pod {
	e.Helper()
	list, err := client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: names.LabelJob + "=job"})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// judged waits until the scheduler has given its verdict on a pod of the job.
func (e *env) judged() {
	e.Helper()
	e.eventually("the scheduler's verdict", func(ctx context.Context) bool {
		for _, pod := range e.pods(ctx) {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
					return true
				}
			}
		}
		return false
	})
}

// bound waits until the job's pod is on a node, and returns it.
func (e *env) bound() *corev1.Pod {
	e.Helper()
	var out *corev1.Pod
	e.eventually("the job's pod to be bound", func(ctx context.Context) bool {
		for _, pod := range e.pods(ctx) {
			if pod.Spec.NodeName != "" {
				out = &pod
			}
		}
		return out != nil
	})
	return out
}

// exists waits until the job has a pod.
func (e *env) exists() {
	e.Helper()
	e.eventually("the job's pod", func(ctx context.Context) bool { return len(e.pods(ctx)) > 0 })
}

// refused waits until the API server has refused a pod of the job.
func (e *env) refused() {
	e.Helper()
	e.eventually("the pod to be refused", func(ctx context.Context) bool {
		events, err := client.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		return err == nil && len(events.Items) > 0
	})
}

// status reports what a kubelet would.
func (e *env) status(pod *corev1.Pod, status corev1.PodStatus) {
	e.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		e.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(e.namespace).Patch(e.Context(), pod.Name,
		"application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		e.Fatal(err)
	}
}

// gpuctl runs the real command in a pipe, and returns what it wrote.
func (e *env) gpuctl(args ...string) (stdout, stderr string) {
	e.Helper()
	streams, out, errOut := cli.TestIOStreams("")
	all := append([]string{"gpuctl", "--kubeconfig", e.kubeconfig, "-n", e.namespace}, args...)
	if code := cli.Run(e.Context(), cli.NewFactory(streams), all); code != 0 {
		e.Fatalf("gpuctl %s: exit code %d\n%s", strings.Join(args, " "), code, errOut)
	}
	return out.String(), errOut.String()
}

// why asks for the cause, as a program does.
func (e *env) why(args ...string) diagnosis.Report {
	e.Helper()
	stdout, _ := e.gpuctl(append([]string{"why", "job", "-o", "json"}, args...)...)
	var report diagnosis.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		e.Fatalf("%v in %s", err, stdout)
	}
	return report
}

// want checks the cause, and that the answer for a person says each of the texts.
func (e *env) want(cause reason.Cause, texts ...string) {
	e.Helper()
	if got := e.why(); got.Cause != cause {
		e.Errorf("the cause is %s, want %s: %+v\nthe scheduler says: %s", got.Cause, cause, got.Findings, got.Verdict)
	}
	stdout, _ := e.gpuctl("why", "job")
	for _, text := range append(texts, string(cause)) {
		if !strings.Contains(stdout, text) {
			e.Errorf("the answer does not say %q:\n%s", text, stdout)
		}
	}
	e.Logf("\n%s", stdout)
}

func setRequest(pod *corev1.Pod, name corev1.ResourceName, quantity string) {
	resources := &pod.Spec.Containers[0].Resources
	value := resource.MustParse(quantity)
	resources.Requests[name], resources.Limits[name] = value, value
}
