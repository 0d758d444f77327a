package rejected

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// Messages of kubelet 1.37.
const (
	ofDevices = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
	ofCPUs    = "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=8, available=4, which is unexpected"
	ofMemory  = "Pod was rejected: Allocate failed due to [memorymanager] failed to find the default preferred hint, which is unexpected"
	ofNICs    = "Pod was rejected: Allocate failed due to requested number of devices unavailable for rdma/hca. Requested: 1, Available: 0, which is unexpected"
	ofACall   = "Pod was rejected: Allocate failed due to rpc error: code = Unavailable desc = error reading from server: EOF, which is unexpected"
)

// rejectedPod is a pod of a Job that node n has rejected, some time after it was given the node.
func rejectedPod(after time.Duration) *corev1.Pod {
	pod := fixture.Pod("p").GPUs(2).Obj()
	pod.Namespace, pod.Finalizers = "team", []string{batchv1.JobTrackingFinalizer}
	pod.Spec.SchedulerName, pod.Spec.NodeName = g8s.SchedulerName, "n"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: reasonOfKubelet, Message: ofDevices,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-after))}},
	}
	return pod
}

func says(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Message = message }
}

func TestARejectedPod(t *testing.T) {
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		change    func(*corev1.Pod)
		agent     corev1.ConditionStatus
		closes    bool
		disrupted bool
	}{
		"its node is closed, and its job pays nothing": {pod: rejectedPod(time.Second), agent: corev1.ConditionTrue, closes: true, disrupted: true},
		"its agent has said why already":               {pod: rejectedPod(time.Second), agent: corev1.ConditionFalse, disrupted: true},
		"its node has no agent":                        {pod: rejectedPod(time.Second), disrupted: true},
		"it was rejected long ago":                     {pod: rejectedPod(time.Hour), agent: corev1.ConditionTrue, disrupted: true},
		"it is of no Job":                              {pod: rejectedPod(0), change: func(p *corev1.Pod) { p.Finalizers = nil }, agent: corev1.ConditionTrue, closes: true},
		"it is of another scheduler":                   {pod: rejectedPod(0), change: func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }, agent: corev1.ConditionTrue},
		"it asks for no GPUs":                          {pod: rejectedPod(0), change: func(p *corev1.Pod) { p.Spec.Containers = fixture.Pod("p").Obj().Spec.Containers }, agent: corev1.ConditionTrue},
		"it failed by itself":                          {pod: rejectedPod(0), change: func(p *corev1.Pod) { p.Status.Reason = "" }, agent: corev1.ConditionTrue},
		"kubelet had no CPUs for it":                   {pod: rejectedPod(0), change: says(ofCPUs), agent: corev1.ConditionTrue},
		"kubelet had no memory for it":                 {pod: rejectedPod(0), change: says(ofMemory), agent: corev1.ConditionTrue},
		"kubelet had no network card for it":           {pod: rejectedPod(0), change: says(ofNICs), agent: corev1.ConditionTrue},
		"the agent ended while it was asked":           {pod: rejectedPod(0), change: says(ofACall), agent: corev1.ConditionTrue, closes: true, disrupted: true},
		"a plugin ended, perhaps of a network card": {pod: rejectedPod(0), agent: corev1.ConditionTrue, change: func(p *corev1.Pod) {
			p.Status.Message = ofACall
			p.Spec.Containers[0].Resources.Limits["rdma/hca"] = resource.MustParse("1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(tc.pod)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			}}}
			if tc.agent != "" {
				node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: g8s.ConditionAgentReady, Status: tc.agent, Reason: "of the agent"})
			}
			c := fake.NewClientBuilder().WithObjects(node, tc.pod).WithStatusSubresource(node, tc.pod).Build()
			told := events.NewFakeRecorder(10)
			r := &Reconciler{Client: c, Events: told, Clock: testingclock.NewFakePassiveClock(noon)}
			for range 2 { // the second time nothing is left to do
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(tc.pod)}); err != nil {
					t.Fatal(err)
				}
			}
			var pod corev1.Pod
			var after corev1.Node
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(tc.pod), &pod); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &after); err != nil {
				t.Fatal(err)
			}
			closed := nodestate.AgentClosure(&after)
			if closes := closed != nil && closed.Reason == g8s.ReasonPodRejected; closes != tc.closes || len(told.Events) > 1 || closes != (len(told.Events) == 1) {
				t.Errorf("closed %v with %d events, want %v", closes, len(told.Events), tc.closes)
			}
			disrupted := condition.OfPod(&pod, corev1.DisruptionTarget) != nil
			if disrupted != tc.disrupted || len(after.Status.Conditions) != len(node.Status.Conditions) {
				t.Errorf("disrupted %v, want %v; conditions of the node %v", disrupted, tc.disrupted, after.Status.Conditions)
			}
		})
	}
}

// TestAPodThatIsGoneIsNotCounted, as nothing was written on it.
func TestAPodThatIsGoneIsNotCounted(t *testing.T) {
	pod := rejectedPod(time.Hour)
	c := fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, pod.Name)
		},
	}).Build()
	before := testutil.ToFloat64(rejections)
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Clock: testingclock.NewFakePassiveClock(noon)}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
		t.Fatal(err)
	}
	if after := testutil.ToFloat64(rejections); after != before {
		t.Errorf("%v pods are counted", after-before)
	}
}
