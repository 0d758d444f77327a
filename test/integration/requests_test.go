package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/rights"
)

// TestASumThatOverflowsIsRefused submits the pod that makes a stock scheduler give GPUs away that do not exist.
func TestASumThatOverflowsIsRefused(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("node").GPUs(8, "A100-80G").Obj())
	text, err := os.ReadFile("testdata/overflow-pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var overflow corev1.Pod
	if err := yaml.UnmarshalStrict(text, &overflow); err != nil {
		t.Fatal(err)
	}
	e.createPods(&overflow)
	const want = "the sum of nvidia.com/gpu over all containers exceeds 9223372036854775807"
	if message := e.waitUnschedulable(overflow.Name); !strings.Contains(message, want) {
		t.Errorf("the scheduler says %q, want %q", message, want)
	}
	e.createPods(fixture.Pod("all").GPUs(8).Obj())
	e.waitBound("all")
	e.createPods(fixture.Pod("one-more").GPUs(1).Obj())
	e.waitUnschedulable("one-more")
}

// TestAnnotationsOfUsersAreChecked submits as an administrator, whom no policy of the API server stops.
func TestAnnotationsOfUsersAreChecked(t *testing.T) {
	shared := func(memory string) *fixture.PodBuilder { return fixture.Pod("pod").SharedGPUs(1, memory) }
	tests := map[string]struct {
		pod  *fixture.PodBuilder
		want []string
	}{
		"cards that the pod gave itself": {
			pod: fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUDevices,
				`{"version":1,"containers":{"main":[{"uuid":"GPU-node-0","index":0}]}}`),
			want: []string{names.AnnotationGPUDevices, "the scheduler's to write", "remove it"},
		},
		"cards that nobody can read": {
			pod:  fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUDevices, "{"),
			want: []string{names.AnnotationGPUDevices, "the scheduler's to write"},
		},
		"a share without a unit": {
			pod: shared("2"), want: []string{names.AnnotationGPUShare, `"2" is less than 1Mi`, "such as 2Gi"},
		},
		"a share in words": {
			pod: shared("two"), want: []string{names.AnnotationGPUShare, `"two" is no amount of memory`},
		},
		"a share beyond all cards": {
			pod: shared("1000Ti"), want: []string{names.AnnotationGPUShare, "more than any GPU has"},
		},
		"a number that takes forever to read": {
			pod:  fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUMemoryMin, "1e999999999"),
			want: []string{names.AnnotationGPUMemoryMin, "no amount of memory"},
		},
		"a list of types with a hole": {
			pod:  fixture.Pod("pod").GPUs(1).Annotate(names.AnnotationGPUTypes, "A100-80G,,"),
			want: []string{names.AnnotationGPUTypes, "want types separated by commas"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(fixture.Node("node").GPUs(8, "A100-80G").SharedGPUs(8, 100).
				Annotate(names.AnnotationInventory, fixture.Cards("node", 81920, 81920).Annotation(t)).Obj())
			e.createPods(tc.pod.Obj())
			message := e.waitUnschedulable("pod")
			for _, want := range tc.want {
				if !strings.Contains(message, want) {
					t.Errorf("the scheduler says %q, want %q", message, want)
				}
			}
		})
	}
}

// TestCardsOfUsersAreRefused submits as a user who may do all with pods of a namespace: the API server refuses cards that the pod gave
// itself, and later changes of those it has.
func TestCardsOfUsersAreRefused(t *testing.T) {
	e := newEnv(t)
	e.createNodes(fixture.Node("node").GPUs(8, "A100-80G").Obj())
	user := e.user("alice")
	const want = "only the scheduler may set, change or remove the annotations"
	const forged = `{"version":1,"containers":{"main":[{"uuid":"index-7","index":7}]}}`
	pods := user.CoreV1().Pods(e.namespace)
	_, err := pods.Create(t.Context(), fixture.Pod("forged").GPUs(1).Annotate(names.AnnotationGPUDevices, forged).Obj(), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("creating a pod with cards: %v, want it forbidden since %s", err, want)
	}
	e.runOneByOne(fixture.Pod("pod").GPUs(1).Obj())
	for name, value := range map[string]string{"other cards": fmt.Sprintf("%q", forged), "none": "null"} {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, names.AnnotationGPUDevices, value)
		_, err := pods.Patch(t.Context(), "pod", types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("giving a pod that runs %s: %v, want it forbidden since %s", name, err, want)
		}
	}
}

// user returns a client of a user who may do all with the pods of the test's namespace.
func (e *env) user(name string) kubernetes.Interface {
	e.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{rbacv1.VerbAll}}},
	}
	if _, err := e.client.RbacV1().Roles(e.namespace).Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if _, err := e.client.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	if err := rights.Await(e.Context(), e.client, e.namespace, binding.RoleRef, binding.Subjects[0]); err != nil {
		e.Fatal(err)
	}
	config := cluster.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		e.Fatal(err)
	}
	return client
}

// TestAMalformedInventoryIsIgnored: what is known without it is used, and the node's owners are told.
func TestAMalformedInventoryIsIgnored(t *testing.T) {
	e := newEnv(t)
	const metric = "gpu_scheduler_devices_malformed_inventories_total"
	before, _ := sum(scrape(t), metric, "", "")
	e.createNodes(fixture.Node("node").GPUs(2, "A100-80G").
		Annotate(names.AnnotationInventory, `{"version":1,"gpus":[{"uuid":"GPU-0","index":0,"health":"Healthy"}`).Obj())
	e.runOneByOne(fixture.Pod("pod").GPUs(2).Obj())
	for _, device := range e.cardsOf("pod")["main"] {
		if !strings.HasPrefix(device.UUID, "index-") {
			t.Errorf("the pod has card %s, want one that is only counted", device.UUID)
		}
	}
	e.waitEvent(corev1.ObjectReference{Kind: "Node", Namespace: metav1.NamespaceDefault, Name: "node"},
		"MalformedInventory", names.AnnotationInventory)
	if got, _ := sum(scrape(t), metric, "", ""); got != before+1 {
		t.Errorf("%s is %v, want %v", metric, got, before+1)
	}
}
