package gangs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/abuse"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

const (
	// patience is how long a test waits for what is under no limit.
	patience = bounds.Patience
	poll     = 10 * time.Millisecond
)

var (
	podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	crds      = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

const crdName = "podgroups.scheduling.x-k8s.io"

// env is a namespace of a test.
type env struct {
	*testing.T
	namespace string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "abuse-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, namespace: namespace.Name}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := client.CoreV1().Pods(e.namespace).DeleteCollection(context.Background(), now, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	return e
}

// group creates a PodGroup, and returns the API server's refusal.
func (e *env) group(name string, spec any, change ...func(*unstructured.Unstructured)) error {
	e.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(names.PodGroupAPIVersion)
	object.SetKind(names.PodGroupKind)
	object.SetName(name)
	for _, change := range change {
		change(object)
	}
	_, err := untyped.Resource(podGroups).Namespace(e.namespace).Create(e.Context(), object, metav1.CreateOptions{})
	return err
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// member creates a pod of a PodGroup that asks for 8 GPUs of the pool of hostile gangs.
func (e *env) member(group, name string, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := fixture.Pod(name).Pool(hostile).GPUs(8).Label(names.LabelPodGroup, group).Obj()
	for _, change := range change {
		change(pod)
	}
	_, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{})
	e.must(err)
}

// reason waits until the scheduler has said of a pod what is wanted.
func (e *env) reason(pod, want string) {
	e.Helper()
	said := ""
	err := wait.PollUntilContextTimeout(e.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		said = e.said(ctx, pod)
		return strings.Contains(said, want), nil
	})
	if err != nil {
		e.Errorf("pod %s is told %q, want %q", pod, said, want)
	}
}

// said is what the scheduler says of a pod, or where it is.
func (e *env) said(ctx context.Context, name string) string {
	pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err.Error()
	case pod.Spec.NodeName != "":
		return "it is on " + pod.Spec.NodeName
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Message
		}
	}
	return ""
}

// bound waits until a pod is on a node, and returns how long that took.
func (e *env) bound(name string) time.Duration {
	e.Helper()
	began := time.Now()
	err := wait.PollUntilContextTimeout(e.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", nil
	})
	if err != nil {
		e.Fatalf("pod %s is not bound in %s: %s", name, patience, e.said(context.Background(), name))
	}
	return time.Since(began)
}

// othersArePlaced has somebody else submit a pod and a gang of two, and demands that they are placed in time.
func othersArePlaced(t *testing.T) {
	t.Helper()
	e := newEnv(t)
	e.must(e.group("theirs", map[string]any{"minMember": int64(2)}))
	for _, name := range []string{"single", "first", "second"} {
		pod := fixture.Pod(name).Pool(others).GPUs(1).Obj()
		if name != "single" {
			pod.Labels[names.LabelPodGroup] = "theirs"
		}
		_, err := client.CoreV1().Pods(e.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		e.must(err)
	}
	took := time.Duration(0)
	for _, name := range []string{"single", "first", "second"} {
		took += e.bound(name)
	}
	if took > abuse.OthersWait() {
		t.Errorf("the pods of others were placed after %s, want at most %s", took.Round(time.Millisecond), abuse.OthersWait())
	}
	t.Logf("the pods of others were placed after %s", took.Round(time.Millisecond))
}

// withoutBounds takes all bounds out of the CRD, as of a cluster whose administrators installed another one, until the test
// has ended.
func withoutBounds(t *testing.T) {
	t.Helper()
	shipped, err := untyped.Resource(crds).Get(t.Context(), crdName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	loose := shipped.DeepCopy()
	strip(loose.Object["spec"])
	update(t, loose)
	t.Cleanup(func() { update(t, shipped) })
	awaitBounds(t, false)
}

// update replaces the CRD's spec.
func update(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	current, err := untyped.Resource(crds).Get(context.Background(), crdName, metav1.GetOptions{})
	if err == nil {
		current.Object["spec"] = crd.Object["spec"]
		_, err = untyped.Resource(crds).Update(context.Background(), current, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// strip removes every bound of a schema.
func strip(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, bound := range []string{"minimum", "maximum", "maxLength", "maxProperties", "pattern", "x-kubernetes-validations", "format"} {
			if _, isField := value[bound].(map[string]any); !isField {
				delete(value, bound)
			}
		}
		for _, inner := range value {
			strip(inner)
		}
	case []any:
		for _, inner := range value {
			strip(inner)
		}
	}
}

// awaitBounds waits until the API server holds PodGroups to the CRD's bounds, or does not any more.
func awaitBounds(t *testing.T, want bool) {
	t.Helper()
	e := &env{T: t, namespace: metav1.NamespaceDefault}
	tries := 0
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		tries++
		name := fmt.Sprintf("probe-%d-%d", time.Now().UnixNano(), tries)
		err := e.group(name, map[string]any{"minMember": int64(-5)})
		if err == nil {
			_ = untyped.Resource(podGroups).Namespace(e.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}
		return want && apierrors.IsInvalid(err) || !want && err == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for the CRD to be in effect: %v", err)
	}
}
