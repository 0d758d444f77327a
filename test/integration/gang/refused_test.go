package gang

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// refusing has the API server refuse an operation on a resource, where an expression is false, until the test ends or the returned
// function is called. isRefused tells when it does.
func (e *env) refusing(resource string, operation admissionv1.OperationType, expression string, isRefused func(context.Context) error) (end func()) {
	e.Helper()
	api, name := cluster.Client.AdmissionregistrationV1(), e.Namespace
	group := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{operation},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: group}}},
		Validations:      []admissionv1.Validation{{Expression: expression, Message: "not by this policy"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	if _, err := api.ValidatingAdmissionPolicies().Create(e.Context(), policy, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	end = func() {
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{}) // they may be gone
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	e.Cleanup(end)
	e.Eventually("the API server to refuse "+resource, func(ctx context.Context) (bool, error) {
		err := isRefused(ctx)
		return err != nil && strings.Contains(err.Error(), "not by this policy"), nil
	})
	return end
}

// refusingBindings has the API server refuse the bindings of pods whose names begin so; foreseen says that it refuses them when they are only
// tried as well.
func (e *env) refusingBindings(prefix string, foreseen bool) (end func()) {
	e.Helper()
	expression := fmt.Sprintf("request.namespace != %q || !request.name.startsWith(%q)", e.Namespace, prefix)
	if !foreseen {
		expression += " || has(request.dryRun) && request.dryRun"
	}
	return e.refusing("pods/binding", admissionv1.Create, expression, func(ctx context.Context) error {
		probe := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: prefix + "-probe"}, Target: corev1.ObjectReference{Kind: "Node", Name: "gang-01"}}
		return cluster.Client.CoreV1().Pods(e.Namespace).Bind(ctx, probe, metav1.CreateOptions{}) // there is no such pod
	})
}

// preempted is how many pods have left for others.
func (e *env) preempted() int {
	e.Helper()
	seen := map[types.UID]bool{}
	list, err := cluster.Client.CoreV1().Events(e.Namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "reason=Preempted"})
	if err != nil {
		e.Fatal(err)
	}
	for i := range list.Items {
		seen[list.Items[i].InvolvedObject.UID] = true
	}
	return len(seen)
}

// onlyLeaves demands that so many pods have left for others, and no more for a while: before, one left each 1.8 seconds.
func (e *env) onlyLeaves(count int, while time.Duration) {
	e.Helper()
	e.Eventually("others to leave", func(context.Context) (bool, error) { return e.preempted() >= count, nil })
	for end := time.Now().Add(while); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got := e.preempted(); got > count {
			e.Fatalf("%d pods have left, want %d", got, count)
		}
	}
}

// refusal waits until a pod says that it was refused, and why.
func (e *env) refusal(name, words string) {
	e.Helper()
	e.Eventually(name+" to say that it was refused", func(ctx context.Context) (bool, error) {
		pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for i := range pod.Status.Conditions {
			if values, ok := reason.PlaceRefused.ValuesIn(pod.Status.Conditions[i].Message); ok {
				return strings.Contains(values[2], words), nil
			}
		}
		return false, nil
	})
}

// TestNoPodLeavesForOneThatWouldBeRefused: the API server is asked before. The pod says why, and takes a free place as soon as it may.
func TestNoPodLeavesForOneThatWouldBeRefused(t *testing.T) {
	e := newEnv(t)
	for i := range nodeCount {
		e.Start(clustertest.Job{Name: fmt.Sprint("low-", i), Priority: "low", GPUs: gpusPerNode})
	}
	end := e.refusingBindings("zombie", true)
	e.member("", "zombie", func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "g8s-high" })
	e.refusal("zombie", "not by this policy")
	e.onlyLeaves(0, 5*time.Second)
	end()
	e.deleteJob("low-0")
	e.waitBound("zombie")
}

// TestNoPodLeavesForAGangOfWhichOneWouldBeRefused, and nothing of it starts.
func TestNoPodLeavesForAGangOfWhichOneWouldBeRefused(t *testing.T) {
	e := newEnv(t)
	e.crowded()
	e.refusingBindings("zombie-0", true)
	e.Submit(clustertest.Job{Name: "zombie", Priority: "high", Pool: rackedPool, Nodes: 3, GPUs: gpusPerNode})
	e.Eventually("the gang to be tried", func(context.Context) (bool, error) { return len(e.members("zombie")) == 3, nil })
	e.Eventually("a member to say that one would be refused", func(context.Context) (bool, error) {
		for _, pod := range e.members("zombie") {
			for i := range pod.Status.Conditions {
				if values, ok := reason.PlaceRefused.ValuesIn(pod.Status.Conditions[i].Message); ok {
					return strings.Contains(values[2], "not by this policy"), nil
				}
			}
		}
		return false, nil
	})
	e.onlyLeaves(0, 5*time.Second)
	for _, pod := range e.members("zombie") {
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" {
			t.Errorf("%s is on %q, and room is kept for it on %q", pod.Name, pod.Spec.NodeName, pod.Status.NominatedNodeName)
		}
	}
}

// TestOnePodLeavesForOneThatIsRefused, and not one every other second: its binding is refused by a policy each time, though not when it is only
// tried. The next leader knows, and the pod takes a free place as soon as it may.
func TestOnePodLeavesForOneThatIsRefused(t *testing.T) {
	e := newEnv(t)
	for i := range nodeCount {
		e.Start(clustertest.Job{Name: fmt.Sprint("low-", i), Priority: "low", GPUs: gpusPerNode})
	}
	end := e.refusingBindings("zombie", false)
	e.member("", "zombie", func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "g8s-high" })
	e.onlyLeaves(1, 10*time.Second)
	e.refusal("zombie", "not by this policy")
	if err := cluster.Scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	cluster.Scheduler = another(t)
	e.onlyLeaves(1, 10*time.Second)
	e.refusal("zombie", "not by this policy")
	end()
	e.deleteJob("low-0")
	e.waitBound("zombie")
}

// deleteJob deletes a job with its pods.
func (e *env) deleteJob(name string) {
	e.Helper()
	if err := cluster.Client.BatchV1().Jobs(e.Namespace).Delete(e.Context(), name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		e.Fatal(err)
	}
}

// TestOthersLeaveOnceForAGangOfWhichOneIsRefused: the part of it that is bound ends, and nothing of it starts while nothing may leave for it.
func TestOthersLeaveOnceForAGangOfWhichOneIsRefused(t *testing.T) {
	e := newEnv(t)
	e.crowded()
	before := e.counted()
	e.refusingBindings("zombie-0", false)
	e.Submit(clustertest.Job{Name: "zombie", Priority: "high", Pool: rackedPool, Nodes: 3, GPUs: gpusPerNode})
	e.onlyLeaves(3, 10*time.Second)
	e.Eventually("half of the gang to end", func(context.Context) (bool, error) {
		for _, pod := range e.members("zombie") {
			if pod.Spec.NodeName != "" {
				return false, nil
			}
		}
		return true, nil
	})
	for i := range 6 {
		e.Running(fmt.Sprint("low-", i), 1) // they have their nodes back
	}
	e.onlyLeaves(3, 5*time.Second)
	e.refusal(e.members("zombie")[0].Name, "not by this policy")
	e.countedSince(before, counts{"gpu_scheduler_evictions_total gang": 3, "gpu_scheduler_evictions_total half": 2, "scheduler_preemption_victims_sum ": 3})
}

// TestOnePodLeavesForOneWhoseVolumeCannotBeBound: that is found out at PreBind, when others have left.
func TestOnePodLeavesForOneWhoseVolumeCannotBeBound(t *testing.T) {
	e := newEnv(t)
	for i := range nodeCount {
		e.Start(clustertest.Job{Name: fmt.Sprint("low-", i), Priority: "low", GPUs: gpusPerNode})
	}
	volume := e.unboundVolume()
	expression := fmt.Sprintf("request.name != %q", volume)
	e.refusing("persistentvolumes", admissionv1.Update, expression, func(ctx context.Context) error {
		_, err := cluster.Client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"x"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	e.member("", "mounts", func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName = "g8s-high"
		mounting("late")(&pod.Spec)
	})
	e.onlyLeaves(1, 10*time.Second)
	e.refusal("mounts", "VolumeBinding")
}

// unboundVolume makes a volume and a claim that the scheduler binds to each other when it has a node, and returns the volume's name.
func (e *env) unboundVolume() string {
	e.Helper()
	name := e.Namespace + "-late"
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	if _, err := cluster.Client.StorageV1().StorageClasses().Create(e.Context(), class, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, StorageClassName: name,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
	}}
	if _, err := cluster.Client.CoreV1().PersistentVolumes().Create(e.Context(), volume, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		for _, err := range []error{
			cluster.Client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{}),
			cluster.Client.StorageV1().StorageClasses().Delete(context.Background(), name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				e.Error(err)
			}
		}
	})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, StorageClassName: ptr.To(name), Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	if _, err := cluster.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Create(e.Context(), claim, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	return name
}
