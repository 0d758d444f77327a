package gangs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/abuse"
	"g8s.host/gpu-scheduler/test/bounds"
)

// unreadable are PodGroups that a cluster stores whose CRD has no bounds, and what their members are told.
var unreadable = map[string]struct {
	spec   any
	reason string
}{
	"members that do not fit in 32 bits":   {map[string]any{"minMember": int64(3_000_000_000)}, "spec.minMember is 3000000000, want a whole number from 1 to 10000"},
	"a million members":                    {map[string]any{"minMember": int64(1_000_000)}, "spec.minMember is 1000000"},
	"no members":                           {map[string]any{"minMember": int64(0)}, "spec.minMember is 0"},
	"less than none":                       {map[string]any{"minMember": int64(-1)}, "spec.minMember is -1"},
	"a timeout in the past":                {map[string]any{"scheduleTimeoutSeconds": int64(-1)}, "spec.scheduleTimeoutSeconds is -1"},
	"an amount with a broken exponent":     {resources("cpu", "1e1.5"), "spec.minResources.cpu is \"1e1.5\""},
	"an amount whose exponent has no end":  {resources("cpu", "1e999999999"), "spec.minResources.cpu is \"1e999999999\""},
	"an amount of a megabyte":              {resources("cpu", strings.Repeat("9", 1<<20)), "spec.minResources.cpu is \"999"},
	"a resource with a name of a megabyte": {resources(strings.Repeat("x", 1<<20), "1"), "spec.minResources names a resource of 1048576 characters"},
	"a thousand resources":                 {thousand(), "spec.minResources has 1000 resources, want at most 16"},
	"amounts that the nodes do not have":   {resources("cpu", "1e99"), "gang: the nodes have less cpu free than spec.minResources"},
}

func resources(name, amount string) map[string]any {
	return map[string]any{"minMember": int64(2), "minResources": map[string]any{name: amount}}
}

func thousand() map[string]any {
	all := map[string]any{}
	for i := range 1000 {
		all[fmt.Sprint("r", i)] = "1"
	}
	return map[string]any{"minMember": int64(2), "minResources": all}
}

// TestAPodGroupThatCannotBeReadStopsNobody, on a cluster whose CRD has no bounds.
func TestAPodGroupThatCannotBeReadStopsNobody(t *testing.T) {
	withoutBounds(t)
	for name, tc := range unreadable {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.must(e.group("bad", tc.spec))
			e.member("bad", "a")
			e.member("bad", "b")
			othersArePlaced(t)
			e.reason("b", tc.reason) // when a was tried, b was not there yet
			e.repair("bad")
			e.bound("a")
			e.bound("b")
		})
	}
}

// repair does what the reason advises.
func (e *env) repair(group string) {
	e.Helper()
	patch := []byte(`[{"op":"replace","path":"/spec","value":{"minMember":2}}]`)
	_, err := untyped.Resource(podGroups).Namespace(e.namespace).Patch(e.Context(), group, types.JSONPatchType, patch, metav1.PatchOptions{})
	e.must(err)
}

// TestASchedulerStartsBesideThem: a new leader lists all PodGroups at once.
func TestASchedulerStartsBesideThem(t *testing.T) {
	withoutBounds(t)
	e := newEnv(t)
	for name, tc := range unreadable {
		e.must(e.group(strings.ReplaceAll(name, " ", "-"), tc.spec))
	}
	e.member("no-members", "a")
	restart(t)
	e.reason("a", "spec.minMember is 0")
	othersArePlaced(t)
}

// restart replaces the scheduler, and waits until the new one leads.
func restart(t *testing.T) {
	t.Helper()
	if err := scheduler.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := startScheduler(ctx); err != nil {
		t.Fatal(err)
	}
	lead := newEnv(t)
	lead.must(lead.group("first", map[string]any{"minMember": int64(1)}))
	pod := func(p *corev1.Pod) { p.Spec.NodeSelector[names.LabelPool] = others }
	lead.member("first", "first", pod)
	lead.bound("first")
}

// TestPodGroupsOfOthers cannot be joined, shared by name or kept from starting.
func TestPodGroupsOfOthers(t *testing.T) {
	e, other := newEnv(t), newEnv(t)
	two := map[string]any{"minMember": int64(2)}
	owned := func(uid string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: uid, UID: types.UID(uid), Controller: &yes}}
		}
	}
	e.must(e.group("same", two))
	other.must(other.group("same", two))
	e.member("same", "mine", owned("job"))
	other.member("same", "theirs", owned("job"))
	e.member("same", "stray")                     // made by hand, with the label of the job's PodGroup
	e.member("same", "of-another", owned("job2")) // of another job of the team
	const alone = "cannot find enough sibling pods, current pods number: 1, minMember of group: 2"
	e.reason("mine", alone)
	e.reason("stray", alone)
	e.reason("of-another", alone)
	other.reason("theirs", alone)
	othersArePlaced(t)
	e.member("same", "second", owned("job"))
	for _, pod := range []string{"mine", "second"} {
		if took := e.bound(pod); took > abuse.OthersWait() {
			t.Errorf("%s of the job that is whole was placed after %s", pod, took)
		}
	}
}

// TestMembersThatDiffer in priority, pool or scheduler hold nothing while they cannot start together.
func TestMembersThatDiffer(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Pod)
		reason string // "" if they start
	}{
		"a higher priority":              {func(p *corev1.Pod) { p.Spec.PriorityClassName = "g8s-high" }, ""},
		"another pool":                   {func(p *corev1.Pod) { p.Spec.NodeSelector[names.LabelPool] = others }, ""},
		"a pool that is not there":       {func(p *corev1.Pod) { p.Spec.NodeSelector[names.LabelPool] = "nowhere" }, "room for 1 of 2 members"},
		"another scheduler":              {func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, "gang: members that have no place yet name another scheduler"},
		"a scheduling gate":              {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x/y"}} }, "gang: gated pods in the same PodGroup"},
		"GPUs that no node has":          {func(p *corev1.Pod) { setGPUs(p, "16") }, "room for 1 of 2 members"},
		"GPUs whose number wraps around": {func(p *corev1.Pod) { setGPUs(p, "9223372036854775807") }, "room for 1 of 2 members"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.must(e.group("g", map[string]any{"minMember": int64(2)}))
			e.member("g", "odd", tc.change)
			e.member("g", "even")
			if tc.reason == "" {
				e.bound("odd")
				e.bound("even")
				return
			}
			e.reason("even", tc.reason)
			othersArePlaced(t)
			if said := e.said(t.Context(), "even"); !strings.Contains(said, tc.reason) {
				t.Errorf("after a while it is told %q, want %q still", said, tc.reason)
			}
		})
	}
}

// TestAHugeGangStopsNobody: 2,000 members for which there is no room, woken again and again.
func TestAHugeGangStopsNobody(t *testing.T) {
	bounds.SkipInShort(t)
	e := newEnv(t)
	const members = 2000
	e.must(e.group("huge", map[string]any{"minMember": int64(members)}))
	for i := range members {
		e.member("huge", fmt.Sprint("m-", i))
	}
	e.reason(fmt.Sprint("m-", members-1), "room for 2 of 2000 members, even when they are empty")
	for range 3 {
		othersArePlaced(t)
		e.wake()
	}
}

// wake changes a label of a node of the pool, which may have made room.
func (e *env) wake() {
	e.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"woken":"%d"}}}`, time.Now().UnixNano())
	_, err := client.CoreV1().Nodes().Patch(e.Context(), hostile+"-1", types.MergePatchType, patch, metav1.PatchOptions{})
	e.must(err)
}

// TestAPodGroupThatChangesAllTheTimeStopsNobody: its spec, its status and a megabyte of annotations.
func TestAPodGroupThatChangesAllTheTimeStopsNobody(t *testing.T) {
	e := newEnv(t)
	e.must(e.group("g", map[string]any{"minMember": int64(100)}))
	for i := range 200 {
		e.member("g", fmt.Sprint("m-", i))
	}
	ctx, stop := context.WithCancel(t.Context())
	done, ended := make(chan error, 1), 0
	go func() {
		for ; ; ended++ {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"a":%q}},"spec":{"minMember":%d}}`, strings.Repeat("x", 200<<10), 100+ended%2)
			_, err := untyped.Resource(podGroups).Namespace(e.namespace).Patch(ctx, "g", types.MergePatchType, patch, metav1.PatchOptions{})
			if err == nil {
				_, err = untyped.Resource(podGroups).Namespace(e.namespace).Patch(ctx, "g", types.MergePatchType,
					fmt.Appendf(nil, `{"status":{"running":%d,"phase":"Finished"}}`, ended), metav1.PatchOptions{}, "status")
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 3 {
		othersArePlaced(t)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("changing the PodGroup: %v", err)
	}
	t.Logf("%d changes meanwhile", ended)
}

// TestAStatusThatAUserWroteDecidesNothing: it is nobody's word but its author's.
func TestAStatusThatAUserWroteDecidesNothing(t *testing.T) {
	e := newEnv(t)
	e.must(e.group("g", map[string]any{"minMember": int64(2)}))
	patch := []byte(`{"status":{"phase":"Finished","running":2,"succeeded":2,"occupiedBy":"another/job"}}`)
	_, err := untyped.Resource(podGroups).Namespace(e.namespace).Patch(t.Context(), "g", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	e.must(err)
	e.member("g", "a")
	e.reason("a", "current pods number: 1, minMember of group: 2")
	e.member("g", "b")
	e.bound("a")
	e.bound("b")
}

// TestASchedulerWithoutTheCRD places all pods but those of gangs, and these when it is there.
func TestASchedulerWithoutTheCRD(t *testing.T) {
	shipped, err := untyped.Resource(crds).Get(t.Context(), crdName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := untyped.Resource(crds).Delete(t.Context(), crdName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	install := func() {
		again := &unstructured.Unstructured{Object: map[string]any{"spec": shipped.Object["spec"]}}
		again.SetAPIVersion("apiextensions.k8s.io/v1")
		again.SetKind("CustomResourceDefinition")
		again.SetName(crdName)
		again.SetAnnotations(shipped.GetAnnotations())
		if _, err := untyped.Resource(crds).Create(context.Background(), again, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		awaitBounds(t, true)
	}
	awaitNoCRD(t)
	if err := scheduler.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := startScheduler(ctx); err != nil {
		install()
		t.Fatalf("a scheduler does not start without the CRD: %v", err)
	}
	e := newEnv(t)
	e.member("g", "single", func(p *corev1.Pod) { delete(p.Labels, names.LabelPodGroup) })
	e.bound("single")
	e.member("g", "member")
	e.reason("member", "PodGroup not found")
	install()
	e.must(e.group("g", map[string]any{"minMember": int64(1)}))
	e.bound("member")
}

func setGPUs(pod *corev1.Pod, count string) {
	quantity := resource.MustParse(count)
	pod.Spec.Containers[0].Resources.Limits[names.ResourceGPU] = quantity
	pod.Spec.Containers[0].Resources.Requests[names.ResourceGPU] = quantity
}

func awaitNoCRD(t *testing.T) {
	t.Helper()
	e := &env{T: t, namespace: metav1.NamespaceDefault}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err := e.group(fmt.Sprint("probe-", time.Now().UnixNano()), map[string]any{}); err != nil && strings.Contains(err.Error(), "could not find") {
			return
		}
	}
	t.Fatal("the CRD is still served")
}
