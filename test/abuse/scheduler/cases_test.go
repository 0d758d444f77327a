package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestOthersArePlaced does hostile things, each while pods of others come and go.
func TestOthersArePlaced(t *testing.T) {
	bounds.SkipInShort(t)
	tests := map[string]func(*env){
		"amounts whose arithmetic does not end":            (*env).amountsWithoutEnd,
		"pods that have as much compared as they may":      (*env).largestSpecs,
		"hundreds of pods whose attempts take long":        (*env).longAttempts,
		"quotas and limits without number":                 (*env).quotasWithoutNumber,
		"a pod that is changed all the time":               (*env).restlessPod,
		"PodGroups as large as they can be":                (*env).largePodGroups,
		"orders of types that nobody needs":                (*env).typesInEveryOrder,
		"a node whose agent reports something else always": (*env).restlessNode,
	}
	for name, abuse := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			stop := e.watchOthers()
			abuse(e)
			stop()
			e.schedulerIsWell()
		})
	}
}

// amountsWithoutEnd asks for amounts that the API server stores after some seconds of arithmetic of its own.
func (e *env) amountsWithoutEnd() {
	for i, name := range []string{"cpu", "memory", string(names.ResourceGPU), "example.com/x"}[:rounds(1, 4)] {
		amount := object{name: "1e9999999"}
		body, err := json.Marshal(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": fmt.Sprint("endless-", i)}, "spec": object{
			"schedulerName": names.SchedulerName,
			"containers":    []any{object{"name": "main", "image": "i", "resources": object{"limits": amount, "requests": amount}}},
		}})
		e.must(err)
		err = client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/" + e.namespace + "/pods").Body(body).Do(e.Context()).Error()
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsTimeout(err) && !apierrors.IsForbidden(err) {
			e.Error(err)
		} else if err == nil {
			e.rejected(fmt.Sprint("endless-", i))
		}
	}
}

// largestSpecs has pods wait that have the scheduler compare as much as they may, in a pool of many nodes.
func (e *env) largestSpecs() {
	for i := range rounds(40, 200) {
		e.node(fixture.Node(fmt.Sprintf("wide-%d", i)).Pool("wide").GPUs(1, "T4").Obj())
	}
	for i := range rounds(20, 200) {
		for name, large := range largest {
			pod := fixture.Pod(fmt.Sprintf("%s-%d", name, i)).Pool("wide").GPUs(2).Obj()
			large.fill(pod, large.most)
			e.pod(pod)
		}
	}
	for name := range largest {
		e.rejected(name + "-0")
	}
}

// longAttempts has hundreds of pods wait in one namespace whose affinity has as many terms as it may, and has all of them tried again
// and again: a node that has too few GPUs for them begins to suit them, and ends to.
func (e *env) longAttempts() {
	for i := range rounds(40, 200) {
		e.node(fixture.Node(fmt.Sprintf("long-%d", i)).Pool("long").GPUs(1, "T4").Obj())
	}
	const pods = 400
	for i := range pods {
		e.pod(longAttempt(i, 20))
	}
	e.rejected(fmt.Sprintf("long-%d", pods-1))
	e.relabel(rounds(6, 60))
}

// longAttempt is a pod that wants two GPUs of nodes that have one, by 100 terms of so many values each.
func longAttempt(number, values int) *corev1.Pod {
	pod := fixture.Pod(fmt.Sprintf("long-%d", number)).Pool("long").GPUs(2).Obj()
	affineTo(pod, 100, values)
	return pod
}

// relabel has a node begin to suit those pods, and end to, so many times in all.
func (e *env) relabel(times int) {
	for i := range times {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, names.LabelRack, []string{"v0-0", "elsewhere"}[i%2])
		_, err := client.CoreV1().Nodes().Patch(e.Context(), "long-0", types.MergePatchType, patch, metav1.PatchOptions{})
		e.must(err)
		time.Sleep(500 * time.Millisecond)
	}
}

// largest are the parts of a pod that the scheduler compares with nodes and other pods, filled with so many entries.
var largest = map[string]struct {
	fill func(pod *corev1.Pod, count int)
	most int
	why  string
}{
	"terms":  {func(pod *corev1.Pod, count int) { affineTo(pod, count, 1) }, 100, "more than 100 terms or 2000 values"},
	"values": {func(pod *corev1.Pod, count int) { affineTo(pod, 1, count) }, 2000, "more than 100 terms or 2000 values"},
	"both":   {func(pod *corev1.Pod, count int) { affineTo(pod, count, 40) }, 50, "more than 100 terms or 2000 values"},
	"others": {func(pod *corev1.Pod, count int) {
		var terms []corev1.PodAffinityTerm
		for i := range count {
			terms = append(terms, corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{}, // of everybody
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": fmt.Sprint(i)}},
			})
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}, 32, "more than 32 terms of affinity"},
	"spread": {func(pod *corev1.Pod, count int) {
		for i := range count {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: fmt.Sprintf("level-%d", i), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
			})
		}
	}, 16, "more than 16 topologySpreadConstraints"},
	"tolerant": {func(pod *corev1.Pod, count int) {
		for i := range count {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("key-%d", i), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
		}
	}, 254, "more than 256 tolerations"}, // Kubernetes adds two
}

// affineTo has a pod want nodes by so many terms, each with so many values.
func affineTo(pod *corev1.Pod, count, values int) {
	var terms []corev1.NodeSelectorTerm
	for i := range count {
		var named []string
		for j := range values {
			named = append(named, fmt.Sprintf("v%d-%d", i, j))
		}
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: names.LabelRack, Operator: corev1.NodeSelectorOpIn, Values: named},
		}})
	}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// TestNoPodHasTheSchedulerCompareTooMuch: 90,000 values in one affinity cost 0.2 s an attempt, and whoever makes a hundred of
// such pods keeps all others waiting for 20.
func TestNoPodHasTheSchedulerCompareTooMuch(t *testing.T) {
	e := newEnv(t)
	for name, large := range largest {
		t.Run(name, func(t *testing.T) {
			for count, want := range map[int]string{large.most: "", large.most + 1: large.why, 60 * large.most: large.why} {
				pod := fixture.Pod(fmt.Sprintf("%s-%d", name, count)).Pool("nowhere").GPUs(1).Obj()
				large.fill(pod, count)
				_, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{})
				switch {
				case want == "" && err != nil:
					t.Errorf("%d: %v", count, err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("%d: error %.200v, want %q", count, err, want)
				}
			}
		})
	}
	pod := fixture.Pod("elsewhere").GPUs(1).Obj()
	pod.Spec.SchedulerName = "another"
	affineTo(pod, 1, 5000)
	e.pod(pod) // is the affair of another scheduler
}

func (e *env) quotasWithoutNumber() {
	ctx := e.Context()
	for i := range rounds(100, 5000) {
		name := fmt.Sprintf("many-%d", i)
		_, err := client.CoreV1().ResourceQuotas(e.namespace).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("1000")}},
		}, metav1.CreateOptions{})
		e.must(err)
		_, err = client.CoreV1().LimitRanges(e.namespace).Create(ctx, &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
		}, metav1.CreateOptions{})
		e.must(err)
	}
}

// restlessPod changes what a pod asks for again and again, which has it tried again each time. The events that tell of it
// are few.
func (e *env) restlessPod() {
	e.pod(fixture.Pod("restless").Pool("nowhere").GPUs(1).Obj())
	for i := range rounds(200, 3000) {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"T%d"}}}`, names.AnnotationGPUTypes, i)
		_, err := client.CoreV1().Pods(e.namespace).Patch(e.Context(), "restless", types.MergePatchType, patch, metav1.PatchOptions{})
		e.must(err)
	}
	e.rejected("restless")
	time.Sleep(time.Second)
	events, err := client.EventsV1().Events(e.namespace).List(e.Context(), metav1.ListOptions{})
	e.must(err)
	if len(events.Items) > 20 {
		e.Errorf("%d events of one pod", len(events.Items))
	}
}

// largePodGroups fills what a PodGroup may hold, its status too.
func (e *env) largePodGroups() {
	for i := range rounds(5, 50) {
		group := &unstructured.Unstructured{Object: object{"spec": object{"minMember": int64(2)}}}
		group.SetAPIVersion(names.PodGroupAPIVersion)
		group.SetKind(names.PodGroupKind)
		group.SetName(fmt.Sprintf("large-%d", i))
		group.SetAnnotations(map[string]string{"note": strings.Repeat("x", 200<<10)})
		created, err := untyped.Resource(podGroups).Namespace(e.namespace).Create(e.Context(), group, metav1.CreateOptions{})
		e.must(err)
		created.Object["status"] = object{"phase": strings.Repeat("p", 1<<20), "occupiedBy": strings.Repeat("o", 100<<10)}
		if _, err := untyped.Resource(podGroups).Namespace(e.namespace).UpdateStatus(e.Context(), created, metav1.UpdateOptions{}); err != nil {
			e.Logf("a status of a megabyte is refused: %.100s", err)
			if _, err = untyped.Resource(podGroups).Namespace(e.namespace).Update(e.Context(), created, metav1.UpdateOptions{}); err != nil {
				e.Logf("and so is an update with it: %.100s", err)
			}
		}
		e.pod(fixture.Pod(fmt.Sprintf("member-%d", i)).Pool("nowhere").GPUs(1).Label(names.LabelPodGroup, group.GetName()).Obj())
	}
	e.rejected("member-0")
}

// typesInEveryOrder has pods name seven types in different orders.
func (e *env) typesInEveryOrder() {
	kinds := []string{"H100", "A", "B", "C", "D", "E", "F"}
	for i := range rounds(100, 1000) {
		order := append([]string(nil), kinds...)
		for j, n := len(order)-1, i; j > 0; j-- {
			order[j], order[n%(j+1)] = order[n%(j+1)], order[j]
			n /= j + 1
		}
		e.pod(fixture.Pod(fmt.Sprintf("order-%d", i)).Pool("nowhere").GPUs(1).Annotate(names.AnnotationGPUTypes, strings.Join(order, ",")).Obj())
	}
	e.rejected("order-0")
}

// restlessNode has a node report other cards all the time, most of them malformed, while a pod waits for them.
func (e *env) restlessNode() {
	node := fixture.Node("restless").Pool("restless").GPUs(2, "T4").Obj()
	e.node(node)
	e.pod(fixture.Pod("waits").Pool("restless").GPUs(4).Obj())
	e.rejected("waits")
	for i := range rounds(200, 3000) {
		inventory := fmt.Sprintf(`{"version":1,"gpus":[{"uuid":"GPU-%d","index":0,"health":"Healthy"},{"uuid":"GPU-%d","index":%d,"health":"Healthy"}]}`, i, i%7, i%3)
		patch, err := json.Marshal(object{"metadata": object{"annotations": object{names.AnnotationInventory: inventory}}})
		e.must(err)
		_, err = client.CoreV1().Nodes().Patch(e.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		e.must(err)
	}
}

// TestWhatAPodAsksForInAll places pods of several kinds of containers on nodes that have just enough GPUs, and one too few.
func TestWhatAPodAsksForInAll(t *testing.T) {
	tests := map[string]struct {
		pod  *corev1.Pod
		peak int
	}{
		"an init container that asks for more":   {fixture.Pod("p").GPUs(2).InitContainer("init", 4).Obj(), 4},
		"an init container that asks for less":   {fixture.Pod("p").GPUs(4).InitContainer("init", 2).Obj(), 4},
		"a sidecar beside the main container":    {fixture.Pod("p").GPUs(2).Sidecar("side", 1).Obj(), 3},
		"an init container beside a sidecar":     {fixture.Pod("p").GPUs(2).Sidecar("side", 1).InitContainer("init", 4).Obj(), 5},
		"an init container before the sidecar":   {fixture.Pod("p").GPUs(2).InitContainer("init", 4).Sidecar("side", 1).Obj(), 4},
		"two main containers":                    {fixture.Pod("p").GPUs(2).Container("second", 3).Obj(), 5},
		"two init containers, one after another": {fixture.Pod("p").GPUs(1).InitContainer("a", 3).InitContainer("b", 2).Obj(), 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			pool := e.namespace
			e.node(fixture.Node(pool+"-less").Pool(pool).GPUs(tc.peak-1, "T4").Obj())
			pod := tc.pod.DeepCopy()
			pod.Labels = map[string]string{names.LabelPool: pool}
			delete(pod.Spec.NodeSelector, names.LabelPool)
			e.pod(pod)
			if why := e.rejected("p"); !strings.Contains(why, "fewer GPUs than the pod asks for") {
				t.Errorf("on a node of %d GPUs: %q", tc.peak-1, why)
			}
			e.node(fixture.Node(pool+"-enough").Pool(pool).GPUs(tc.peak, "T4").Obj())
			if got := e.bound("p").Spec.NodeName; got != pool+"-enough" {
				t.Errorf("the pod is on %s", got)
			}
		})
	}
}

// TestOverheadCounts has runtime classes add to what the pod's containers ask for. A GPU that no container has is nobody's.
func TestOverheadCounts(t *testing.T) {
	tests := map[string]struct{ resource, why string }{
		"more CPU than the node has": {"cpu", "Insufficient cpu"},
		"a GPU":                      {names.ResourceGPU, "the pod's overhead asks for GPUs, which no container could use: ask for them in a container"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			class := &nodev1.RuntimeClass{
				ObjectMeta: metav1.ObjectMeta{Name: e.namespace}, Handler: "h",
				Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceName(tc.resource): resource.MustParse("1000")}},
			}
			_, err := client.NodeV1().RuntimeClasses().Create(e.Context(), class, metav1.CreateOptions{})
			e.must(err)
			t.Cleanup(func() {
				if err := client.NodeV1().RuntimeClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			})
			e.node(fixture.Node(e.namespace).Pool(e.namespace).GPUs(2, "T4").Obj())
			e.pod(fixture.Pod("without").Pool(e.namespace).GPUs(1).Obj())
			e.bound("without")
			pod := fixture.Pod("with").Pool(e.namespace).GPUs(1).Obj()
			pod.Spec.RuntimeClassName = &class.Name
			e.pod(pod)
			if why := e.rejected("with"); !strings.Contains(why, tc.why) {
				t.Errorf("the pod with the overhead waits for %q, want %q", why, tc.why)
			}
		})
	}
}

// TestResizeInPlace changes the CPU of a pod that has GPUs: it keeps its cards, and they stay taken.
func TestResizeInPlace(t *testing.T) {
	e := newEnv(t)
	e.node(fixture.Node(e.namespace).Pool(e.namespace).GPUs(2, "T4").Obj())
	e.pod(fixture.Pod("p").Pool(e.namespace).GPUs(1).CPU(1).Obj())
	before := e.bound("p")
	resize := func(amounts string) error {
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":%s,"limits":%s}}]}}`, before.Spec.Containers[0].Name, amounts, amounts)
		_, err := client.CoreV1().Pods(e.namespace).Patch(e.Context(), "p", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
		return err
	}
	if err := resize(`{"nvidia.com/gpu":"2"}`); err == nil {
		t.Error("the GPUs of a running pod were changed")
	}
	e.must(resize(`{"cpu":"2"}`))
	e.must(resize(`{"cpu":"500m"}`))
	e.pod(fixture.Pod("second").Pool(e.namespace).GPUs(1).Obj())
	second := e.bound("second")
	e.pod(fixture.Pod("third").Pool(e.namespace).GPUs(1).Obj())
	if why := e.rejected("third"); !strings.Contains(why, "too few free GPUs") {
		t.Errorf("a third pod on two cards: %q", why)
	}
	after := e.await("p", func(*corev1.Pod) bool { return true })
	cards := before.Annotations[names.AnnotationGPUDevices]
	if after.Annotations[names.AnnotationGPUDevices] != cards || second.Annotations[names.AnnotationGPUDevices] == cards {
		t.Errorf("cards %s became %s, and the second pod has %s", cards, after.Annotations[names.AnnotationGPUDevices], second.Annotations[names.AnnotationGPUDevices])
	}
}

// TestMirrorPodsHoldGPUs: a pod that a node's own files start is bound by nobody, and names no cards.
func TestMirrorPodsHoldGPUs(t *testing.T) {
	e := newEnv(t)
	e.node(fixture.Node(e.namespace).Pool(e.namespace).GPUs(4, "T4").Obj())
	mirror := fixture.Pod("static").GPUs(3).Annotate(corev1.MirrorPodAnnotationKey, "hash").Obj()
	mirror.Spec.NodeName = e.namespace
	e.pod(mirror)
	e.pod(fixture.Pod("two").Pool(e.namespace).GPUs(2).Obj())
	if why := e.rejected("two"); !strings.Contains(why, "too few free GPUs") {
		t.Errorf("beside a static pod of 3 of 4 GPUs: %q", why)
	}
	e.pod(fixture.Pod("one").Pool(e.namespace).GPUs(1).Obj())
	e.bound("one")
}
