package chaos

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/oracle"
)

const (
	// trio is of how many members, of a whole node each, the gangs of this test are.
	trio = 3
	// wholeNodes is how many nodes have 8 GPUs.
	wholeNodes = 40
	// refusedNames are the pods whose bindings the API server refuses: single ones, and one member of gangs.
	refusedNames = "^(refused-[0-9]+|mixed-[0-9]+-member-0)$"
)

// startsWithin is how soon one of those for whom others have left starts in their place.
var startsWithin = bounds.Of(15 * time.Second)

// crowd is a pool full of pods of low priority, each of which is made anew when it has to leave.
type crowd struct {
	*gangs
	made int
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{gangs: newGangs(t)}
	c.must(c.refuse())
	c.refill()
	c.await("the pool to be full", func(bindings []oracle.Binding) bool { return len(bindings) >= wholeNodes })
	return c
}

// refuse has the API server refuse some bindings, and waits until it does.
func (c *crowd) refuse() error {
	api, name := client.AdmissionregistrationV1(), c.namespace
	rule := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}}}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}}},
		Validations:      []admissionv1.Validation{{Expression: fmt.Sprintf("request.namespace != %q || !request.name.matches(%q)", name, refusedNames)}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	c.Cleanup(func() {
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{}) // no other test is meant
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	if _, err := api.ValidatingAdmissionPolicies().Create(c.Context(), policy, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(c.Context(), binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	probe := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "refused-0"}, Target: corev1.ObjectReference{Kind: "Node", Name: "whole-0"}}
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		err := client.CoreV1().Pods(name).Bind(c.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the API server does not refuse bindings after %s: %w", patience, err)
		}
	}
}

// refill makes as many pods of low priority as are missing.
func (c *crowd) refill() {
	c.Helper()
	list, err := client.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{LabelSelector: "crowd"})
	c.must(err)
	for range wholeNodes - len(list.Items) {
		c.must(c.put(fixture.Pod(fmt.Sprint("low-", c.made)).Label("crowd", "low").Obj(), "g8s-low"))
		c.made++
	}
}

// put creates a pod that takes a node, and leaves it at once when it is told to: no kubelet is there.
func (c *crowd) put(pod *corev1.Pod, priority string) error {
	one := fixture.Pod(pod.Name).Pool(pool).GPUs(8).Obj()
	pod.Spec.NodeSelector, pod.Spec.Containers = one.Spec.NodeSelector, one.Spec.Containers
	pod.Spec.PriorityClassName, pod.Spec.TerminationGracePeriodSeconds = priority, ptr.To[int64](0)
	_, err := client.CoreV1().Pods(c.namespace).Create(c.Context(), pod, metav1.CreateOptions{})
	return err
}

// gang makes a gang of high priority.
func (c *crowd) gang(name string, change func(*corev1.Pod)) {
	c.Helper()
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(trio)}}}
	group.SetAPIVersion(names.PodGroupAPIVersion)
	group.SetKind(names.PodGroupKind)
	group.SetName(name)
	_, err := c.groups.Create(c.Context(), group, metav1.CreateOptions{})
	c.must(err)
	for i := range trio {
		pod := fixture.Pod(fmt.Sprintf("%s-member-%d", name, i)).Label(names.LabelPodGroup, name).Obj()
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(c.namespace + name), Controller: ptr.To(true)}}
		change(pod)
		c.must(c.put(pod, "g8s-high"))
	}
}

// apart keeps the members of a gang from each other in all of the pool.
func apart(pod *corev1.Pod) {
	term := corev1.PodAffinityTerm{TopologyKey: names.LabelPool, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelPodGroup: pod.Labels[names.LabelPodGroup]}}}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
}

// TestNothingLeavesForNothing: in a full pool come a pod whose binding is refused, a gang with such a member, one that affinity keeps out, and
// one that starts; and the leader is killed. Nothing leaves for all but the last one.
func TestNothingLeavesForNothing(t *testing.T) {
	bounds.SkipInShort(t)
	replicas, c := startReplicas(t), newCrowd(t)
	for round := range *vain {
		c.round(replicas, round)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	history, err := c.recorder.Stop(ctx)
	c.must(err)
	for _, violation := range oracle.Check(history) {
		t.Error(violation)
	}
	inVain := oracle.InVain(history, startsWithin)
	for _, violation := range inVain {
		t.Error(violation)
	}
	if left, all := c.made-wholeNodes, trio**vain; left > all {
		t.Errorf("%d pods left for others, want %d for the gangs that start", left, all)
	}
	t.Logf("%d rounds, %d revisions: %d pods left for others, %d times for nothing", *vain, len(history), c.made-wholeNodes, len(inVain))
}

// round has one of each kind come, kills the leader when the one that can start has, and looks on for a while.
func (c *crowd) round(replicas *replicas, number int) {
	c.Helper()
	leader := replicas.leader()
	c.must(c.put(fixture.Pod(fmt.Sprint("refused-", number)).Obj(), "g8s-high"))
	c.gang(fmt.Sprint("mixed-", number), func(*corev1.Pod) {})
	c.gang(fmt.Sprint("apart-", number), apart)
	c.gang(fmt.Sprint("urgent-", number), func(*corev1.Pod) {})
	c.fills("the gang that can start", func(bindings []oracle.Binding) bool {
		return bound(bindings, fmt.Sprintf("/urgent-%d-member-", number)) == trio
	})
	c.must(leader.Kill())
	c.must(replicas.start())
	end := time.Now().Add(startsWithin + 5*time.Second)
	c.fills("a while", func([]oracle.Binding) bool { return time.Now().After(end) })
	refused := regexp.MustCompile(refusedNames)
	for _, binding := range c.recorder.History().Bindings() {
		if _, name, _ := strings.Cut(binding.Pod, "/"); refused.MatchString(name) || strings.HasPrefix(name, "apart-") {
			c.Errorf("%s is bound to %s", binding.Pod, binding.Node)
		}
	}
}

// fills keeps the pool full until something has happened.
func (c *crowd) fills(what string, done func([]oracle.Binding) bool) {
	c.Helper()
	for deadline := time.Now().Add(patience); !done(c.recorder.History().Bindings()); time.Sleep(100 * time.Millisecond) {
		c.refill()
		if time.Now().After(deadline) {
			c.Fatalf("waited %s for %s\n%s", patience, what, c.waiting())
		}
	}
}

// bound is how many pods with a part of a name are.
func bound(bindings []oracle.Binding, part string) (count int) {
	for i := range bindings {
		if strings.Contains(bindings[i].Pod, part) {
			count++
		}
	}
	return count
}
