package drain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// pod runs on a node for a Job.
func pod(name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	out := fixture.Pod(name).GPUs(1).Obj()
	out.Namespace, out.UID = "default", types.UID(name)
	out.Spec.NodeName, out.Status.Phase = node, corev1.PodRunning
	out.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", UID: "j", Controller: ptr.To(true)}}
	for _, c := range change {
		c(out)
	}
	return *out
}

func member(p *corev1.Pod) { p.Labels = map[string]string{names.LabelPodGroup: "g"} }
func inRay(p *corev1.Pod) {
	p.Labels = map[string]string{"ray.io/cluster": "r", "ray.io/node-type": "worker"}
	p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "r", types.UID("of-"+p.Name)
}
func going(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
func stays(p *corev1.Pod) { p.Annotations = map[string]string{names.AnnotationNoMigration: names.True} }
func alone(p *corev1.Pod) { p.OwnerReferences = nil }
func daemon(p *corev1.Pod) {
	p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion = "DaemonSet", "apps/v1"
}
func forged(p *corev1.Pod) {
	p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion = "Node", "v1"
}
func ofFile(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func noGPUs(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
func other(p *corev1.Pod)  { p.OwnerReferences[0].UID = "other" }

// needs is the PodGroup of the members.
func needs(members int64) map[snapshot.ObjectRef]*unstructured.Unstructured {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": members}}}
	ref := snapshot.ObjectRef{Resource: schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}, Namespace: "default", Name: "g"}
	return map[snapshot.ObjectRef]*unstructured.Unstructured{ref: group}
}

// ray is the RayCluster of a head and so many workers.
func ray(workers int64) map[snapshot.ObjectRef]*unstructured.Unstructured {
	limits := map[string]any{"nvidia.com/gpu": "8"}
	template := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "ray", "resources": map[string]any{"limits": limits}}}}}
	cluster := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"workerGroupSpecs": []any{map[string]any{"replicas": workers, "template": template}}}}}
	ref := snapshot.ObjectRef{Resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}, Namespace: "default", Name: "r"}
	return map[snapshot.ObjectRef]*unstructured.Unstructured{ref: cluster}
}

func budget(allowed int32) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		pods    []corev1.Pod
		objects map[snapshot.ObjectRef]*unstructured.Unstructured
		budgets []policyv1.PodDisruptionBudget
		force   bool
		// units are the pods that leave together, held those that keep all, and budget those that wait for one.
		units   []string
		held    []string
		staying int
		waits   bool
	}{
		"an empty node":                      {},
		"pods of the node, and of another":   {pods: []corev1.Pod{pod("b", "n"), pod("a", "n"), pod("c", "m")}, units: []string{"a", "b"}},
		"one that has ended":                 {pods: []corev1.Pod{pod("a", "n", ended)}},
		"one that leaves already":            {pods: []corev1.Pod{pod("a", "n", going)}, units: []string{"a"}},
		"one without GPUs":                   {pods: []corev1.Pod{pod("a", "n", noGPUs)}, staying: 1},
		"one of a DaemonSet":                 {pods: []corev1.Pod{pod("a", "n", daemon)}, staying: 1},
		"one of a file":                      {pods: []corev1.Pod{pod("a", "n", ofFile)}, staying: 1},
		"one that says it is the node's":     {pods: []corev1.Pod{pod("a", "n", forged)}, held: []string{"a NoController"}},
		"one that is not to be moved":        {pods: []corev1.Pod{pod("a", "n", stays), pod("b", "n")}, units: []string{"b"}, held: []string{"a NoMigration"}},
		"one that nothing starts again":      {pods: []corev1.Pod{pod("a", "n", alone)}, held: []string{"a NoController"}},
		"both by force":                      {pods: []corev1.Pod{pod("a", "n", stays), pod("b", "n", alone)}, force: true, units: []string{"a", "b"}},
		"one that is not to be moved leaves": {pods: []corev1.Pod{pod("a", "n", stays, going)}, units: []string{"a"}},
		"a gang leaves as a whole": {
			pods: []corev1.Pod{pod("a", "n", member), pod("b", "m", member), pod("c", "", member)}, objects: needs(2), units: []string{"a b"},
		},
		"also where nobody says how many it needs": {pods: []corev1.Pod{pod("a", "n", member), pod("b", "m", member)}, units: []string{"a b"}},
		"one that can do with fewer does not":      {pods: []corev1.Pod{pod("a", "n", member), pod("b", "m", member)}, objects: needs(1), units: []string{"a"}},
		"members on the node leave together":       {pods: []corev1.Pod{pod("a", "n", member), pod("b", "n", member), pod("c", "m", member)}, objects: needs(1), units: []string{"a b"}},
		"pods of another controller are none":      {pods: []corev1.Pod{pod("a", "n", member), pod("b", "m", member, other)}, objects: needs(2), units: []string{"a"}},
		"a member elsewhere that is not to be moved": {
			pods: []corev1.Pod{pod("a", "n", member), pod("b", "m", member, stays)}, objects: needs(2), held: []string{"b NoMigration"},
		},
		"a gang that has begun to leave takes nobody along again": {
			pods: []corev1.Pod{pod("a", "n", member, going), pod("b", "n", member), pod("new", "m", member)}, objects: needs(3), units: []string{"a b"},
		},
		"a gang that is recognized leaves as a whole": {
			pods: []corev1.Pod{pod("a", "n", inRay), pod("b", "m", inRay), pod("c", "m", inRay), pod("d", "m")}, objects: ray(2), units: []string{"a b c"},
		},
		"one that can do with fewer":       {pods: []corev1.Pod{pod("a", "n", inRay), pod("b", "m", inRay), pod("c", "m", inRay)}, objects: ray(1), units: []string{"a"}},
		"one whose object may not be read": {pods: []corev1.Pod{pod("a", "n", inRay), pod("b", "m", inRay)}, units: []string{"a"}},
		"a budget that allows it":          {pods: []corev1.Pod{pod("a", "n")}, budgets: []policyv1.PodDisruptionBudget{budget(1)}, units: []string{"a"}},
		"one that does not":                {pods: []corev1.Pod{pod("a", "n")}, budgets: []policyv1.PodDisruptionBudget{budget(0)}, units: []string{"a"}, waits: true},
		"half a gang is not let go": {
			pods: []corev1.Pod{pod("a", "n", member), pod("b", "m", member)}, objects: needs(2), budgets: []policyv1.PodDisruptionBudget{budget(1)}, units: []string{"a b"}, waits: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := Decide(&snapshot.Snapshot{Pods: tc.pods, Objects: tc.objects, Budgets: tc.budgets}, "n", tc.force)
			var units, held []string
			for _, unit := range plan.Units {
				var pods []string
				for _, pod := range unit.Pods {
					pods = append(pods, pod.Name)
				}
				units = append(units, strings.Join(pods, " "))
				if (unit.Budget != "") != tc.waits {
					t.Errorf("%v waits for budget %q, want %v", pods, unit.Budget, tc.waits)
				}
			}
			for _, hold := range plan.Holds {
				held = append(held, hold.Name+" "+string(hold.Reason))
			}
			if diff := cmp.Diff([]any{tc.units, tc.held, tc.staying}, []any{units, held, plan.Staying}); diff != "" {
				t.Errorf("units, held, staying (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecovery(t *testing.T) {
	const remains = "it breaks a constraint of its pool, and gets no pods until it does not: gpuctl describe node n"
	record := func(r nodestate.Record) func(*corev1.Node) {
		return func(n *corev1.Node) {
			text, err := r.EncodeAnnotation()
			if err != nil {
				t.Fatal(err)
			}
			n.Annotations = map[string]string{names.AnnotationHealth: text}
		}
	}
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, message string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Message: message})
		}
	}
	silent := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}}
	}
	tests := map[string]struct {
		change  []func(*corev1.Node)
		force   bool
		want    Recovered
		refused string
	}{
		"a node that is well":      {want: Recovered{Node: "n"}},
		"cordoned":                 {change: []func(*corev1.Node){cordoned}, want: Recovered{Node: "n", Uncordoned: true}},
		"suspect":                  {change: []func(*corev1.Node){taint(names.TaintSuspect)}, want: Recovered{Node: "n", Trusted: true}},
		"both":                     {change: []func(*corev1.Node){cordoned, taint(names.TaintSuspect)}, want: Recovered{Node: "n", Uncordoned: true, Trusted: true}},
		"not ready":                {change: []func(*corev1.Node){cordoned, silent}, refused: "it is not ready (Kubelet stopped posting node status.)"},
		"not ready, by force":      {change: []func(*corev1.Node){cordoned, silent}, force: true, refused: "it is not ready"},
		"its taint is still there": {change: []func(*corev1.Node){cordoned, taint(corev1.TaintNodeUnreachable)}, refused: "it is not ready"},
		"a condition is still true": {
			change:  []func(*corev1.Node){taint(names.TaintSuspect), record(nodestate.Record{Condition: "XIDFatal"}), condition("XIDFatal", corev1.ConditionTrue, "XID 79")},
			refused: "its condition XIDFatal is still true (XID 79)",
		},
		"a condition is still true, and a person knows better": {
			change: []func(*corev1.Node){taint(names.TaintSuspect), record(nodestate.Record{Condition: "XIDFatal"}), condition("XIDFatal", corev1.ConditionTrue, "XID 79")},
			force:  true, want: Recovered{Node: "n", Trusted: true},
		},
		"a condition that is over": {
			change: []func(*corev1.Node){taint(names.TaintSuspect), record(nodestate.Record{Condition: "XIDFatal"}), condition("XIDFatal", corev1.ConditionFalse, "")},
			want:   Recovered{Node: "n", Trusted: true},
		},
		"what others keep off stays": {
			change: []func(*corev1.Node){cordoned, taint(names.TaintNotAdmitted)},
			want:   Recovered{Node: "n", Uncordoned: true, Remains: []string{remains}, RemainTexts: []phrase.Text{phrase.Quote(remains)}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := fixture.Node("n").GPUs(8, "A").Obj()
			for _, change := range tc.change {
				change(node)
			}
			got, err := PlanRecovery(node, tc.force)
			var refused *NotWellError
			if tc.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), tc.refused)) {
				t.Fatalf("error %v, want %q", err, tc.refused)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
