package situations

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/cli"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// patience is how long the cluster may take to do what it does at once on an idle machine, or after its longest back-off.
var patience = bounds.Patience

// world is one situation's part of the cluster: a namespace, a pool, and a type of GPU that no other situation has.
type world struct {
	*testing.T
	namespace, pool, gpuType string
	// doc is the YAML of the job in question, which is called train.
	doc map[string]any
	// raw changes what the YAML becomes, for jobs that gpuctl would not make; it is called with what was corrected.
	raw func(job *batchv1.Job, corrected string)
	// knows is what only the user or the administrators know, by field or action.
	knows map[string]any
	// does is how they do what only they can, by action.
	does map[reason.Action]func(diagnosis.Step)
	// corrects changes the YAML of a job that is submitted again.
	corrects func()
	// now is where the job is, after it was created in another namespace.
	now   string
	nodes []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, namespace: namespace.Name, now: namespace.Name, pool: "pool-" + namespace.Name, gpuType: "X-" + namespace.Name,
		knows: map[string]any{}, does: map[reason.Action]func(diagnosis.Step){}}
	w.doc = map[string]any{
		"kind": "training", "job": map[string]any{"name": "train"},
		"environment": map[string]any{"image": "busybox", "command": []any{"run"}},
		"resources":   map[string]any{"pool": w.pool, "gpu": 1, "gpu-type": w.gpuType, "cpu": 1, "memory": "1Gi"},
	}
	t.Cleanup(w.cleanUp)
	w.accounts(w.namespace)
	return w
}

// accounts waits until a new namespace can hold pods.
func (w *world) accounts(namespace string) {
	w.Helper()
	w.eventually("the namespace to have its service account", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

func (w *world) cleanUp() {
	ctx := context.Background()
	kubelets.letGo(w.namespace)
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	for _, namespace := range []string{w.namespace, w.now} {
		_ = client.BatchV1().Jobs(namespace).DeleteCollection(ctx, now, metav1.ListOptions{})
		_ = client.AppsV1().Deployments(namespace).DeleteCollection(ctx, now, metav1.ListOptions{})
		_ = client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{})
	}
	for _, node := range w.nodes {
		kubelets.serve(node, false)
		_ = client.CoreV1().Nodes().Delete(ctx, node, now)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, done func(context.Context) bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		w.Fatalf("waiting for %s: %v", what, err)
	}
}

// name is that of a node of this situation.
func (w *world) name(node string) string { return w.namespace + "-" + node }

// node is one with GPUs of this situation's type, in its pool.
func (w *world) node(name string, gpus int) *fixture.NodeBuilder {
	return fixture.Node(w.name(name)).Pool(w.pool).GPUs(gpus, w.gpuType).Label(names.LabelMemory, "80Gi").Annotate("kwok.x-k8s.io/node", "fake")
}

// add registers nodes on which kwok runs the pods, and waits until those that are ready take some.
func (w *world) add(builders ...*fixture.NodeBuilder) {
	w.Helper()
	for _, builder := range builders {
		w.addNode(builder.Obj())
	}
}

// addOwn registers a node on which this package's kubelet runs the pods.
func (w *world) addOwn(builder *fixture.NodeBuilder) {
	w.Helper()
	node := builder.Obj()
	delete(node.Annotations, "kwok.x-k8s.io/node")
	w.addNode(node)
	kubelets.serve(node.Name, true)
}

func (w *world) addNode(node *corev1.Node) {
	w.Helper()
	_, err := client.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	w.must(err)
	w.nodes = append(w.nodes, node.Name)
	if node.Status.Conditions[0].Status != corev1.ConditionTrue {
		return
	}
	w.eventually("node "+node.Name+" to lose its taint", func(ctx context.Context) bool {
		got, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		return err == nil && len(got.Spec.Taints) == len(node.Spec.Taints)
	})
}

// hold has a pod of another job on a node, as if it had been placed there.
func (w *world) hold(job, node string, gpus int64, change ...func(*corev1.Pod)) {
	w.Helper()
	pod := fixture.Pod(job+"-"+node).GPUs(gpus).Label(names.LabelJob, job).Label(names.LabelJobType, "training").Obj()
	pod.Spec.NodeName, pod.Spec.PriorityClassName = w.name(node), names.PriorityClassMedium
	for _, do := range change {
		do(pod)
	}
	_, err := client.CoreV1().Pods(w.namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	w.must(err)
	w.eventually("pod "+pod.Name+" to run", func(ctx context.Context) bool {
		got, err := client.CoreV1().Pods(w.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning
	})
}

func ofPriority(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

// ask changes fields of the job's YAML, given as path and value.
func (w *world) ask(fields ...any) {
	for i := 0; i < len(fields); i += 2 {
		w.set(fields[i].(string), fields[i+1])
	}
}

// set writes a field of the job's YAML; nil leaves it out.
func (w *world) set(path string, value any) {
	keys := strings.Split(path, ".")
	at := w.doc
	for _, key := range keys[:len(keys)-1] {
		if at[key] == nil {
			at[key] = map[string]any{}
		}
		at = at[key].(map[string]any)
	}
	if last := keys[len(keys)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
}

// file writes the job's YAML into a file.
func (w *world) file() string {
	w.Helper()
	text, err := yaml.Marshal(w.doc)
	w.must(err)
	path := filepath.Join(w.TempDir(), "job.yaml")
	w.must(os.WriteFile(path, text, 0o600))
	return path
}

// submit creates the job as users do.
func (w *world) submit(fields ...any) {
	w.Helper()
	w.ask(fields...)
	if w.raw != nil {
		w.submitRaw("")
		return
	}
	w.gpuctl("create", "-f", w.file())
}

// submitRaw creates what the YAML becomes, changed as only those do who write Kubernetes' own YAML.
func (w *world) submitRaw(corrected string) {
	w.Helper()
	rendered := w.gpuctl("render", "-f", w.file())
	for _, text := range strings.Split(rendered, "\n---\n") {
		var job batchv1.Job
		if err := yaml.Unmarshal([]byte(text), &job); err != nil || job.Kind != "Job" {
			continue
		}
		job.Namespace = w.namespace
		w.raw(&job, corrected)
		w.eventually("the job to be created", func(ctx context.Context) bool {
			_, err := client.BatchV1().Jobs(w.namespace).Create(ctx, job.DeepCopy(), metav1.CreateOptions{})
			return err == nil
		})
		return
	}
	w.Fatalf("no Job in\n%s", rendered)
}

// gpuctl runs the real command in a pipe, and returns what it wrote.
func (w *world) gpuctl(args ...string) string {
	w.Helper()
	stdout, stderr, code := w.try(args...)
	if code != 0 {
		w.Fatalf("gpuctl %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

func (w *world) try(args ...string) (stdout, stderr string, code int) {
	streams, out, errOut := cli.TestIOStreams("")
	all := append([]string{"gpuctl", "--kubeconfig", cluster.Kubeconfig()}, args...)
	if !slices.Contains(args, "-n") {
		all = append(all, "-n", w.now)
	}
	code = cli.Run(w.Context(), cli.NewFactory(streams), all)
	return out.String(), errOut.String(), code
}

// why asks for the causes, as a program does.
func (w *world) why() diagnosis.Report {
	w.Helper()
	var report diagnosis.Report
	w.must(json.Unmarshal([]byte(w.gpuctl("why", "train", "-o", "json")), &report))
	return report
}

// pods returns those of the job that have not ended.
func (w *world) pods(ctx context.Context) []corev1.Pod {
	list, err := client.CoreV1().Pods(w.now).List(ctx, metav1.ListOptions{LabelSelector: names.LabelJob + "=train"})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	})
}

// runs reports whether the job runs: all pods that it wants, none of them on its way out.
func (w *world) runs(ctx context.Context) bool {
	pods := w.pods(ctx)
	want := 1
	if nodes, ok := w.doc["resources"].(map[string]any)["nodes"]; ok {
		if _, err := fmt.Sscan(fmt.Sprint(nodes), &want); err != nil {
			return false
		}
	}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil || !isReady(&pods[i]) {
			return false
		}
	}
	return len(pods) == want
}

func isReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// running waits until the job runs.
func (w *world) running() {
	w.Helper()
	w.eventually("the job to run", w.runs)
}

// patchNode changes a node.
func (w *world) patchNode(name, patch string, subresources ...string) {
	w.Helper()
	_, err := client.CoreV1().Nodes().Patch(w.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	w.must(err)
}

// quota bounds the namespace, and waits until the bound is in force.
func (w *world) quota(name string, hard corev1.ResourceList, change ...func(*corev1.ResourceQuota)) {
	w.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	for _, do := range change {
		do(quota)
	}
	_, err := client.CoreV1().ResourceQuotas(w.namespace).Create(w.Context(), quota, metav1.CreateOptions{})
	w.must(err)
	w.eventually("the quota to be in force", func(ctx context.Context) bool {
		got, err := client.CoreV1().ResourceQuotas(w.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) == len(hard)
	})
}

func gpusOf(count string) corev1.ResourceList {
	return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(count)}
}

func needs(container *corev1.Container) *resource.Quantity {
	for _, variable := range container.Env {
		if quantity, err := resource.ParseQuantity(variable.Value); err == nil && variable.Name == needsMemory {
			return &quantity
		}
	}
	return nil
}
