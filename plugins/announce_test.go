package plugins_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/upstream"
)

// slowBinding is a plugin that has something to do before a pod is bound, and fails.
type slowBinding struct{}

var _ fwk.PreBindPlugin = slowBinding{}

func (slowBinding) Name() string { return "SlowBinding" }

func (slowBinding) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (slowBinding) PreBind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return fwk.NewStatus(fwk.Error, "the volume is not there")
}

// TestNoMemberIsAnnounced has pods lose their places right after they got them, in kube-scheduler's own loop: of a member nothing is
// written that says where it was to go, since the informers hear of it too late for it to be taken back.
func TestNoMemberIsAnnounced(t *testing.T) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.NominatedNodeNameForExpectation) {
		t.Fatal("kube-scheduler announces no pod, so the test proves nothing")
	}
	tests := map[string]struct {
		minMember int32 // 0 for a pod of no gang
		announced bool
	}{
		"a pod of no gang":                  {0, true},
		"a member of a gang that is whole":  {1, false},
		"a member that waits for the other": {2, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClusterWith(t, fwkruntime.Registry{"SlowBinding": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				return slowBinding{}, nil
			}}, gpuNode("a", "pcie"), gpuNode("b", "pcie"))
			plugins.Wrap(c.scheduler, plugins.Options{})
			profile := c.scheduler.Profiles[names.SchedulerName]
			api := profile.ClientSet().(*fake.Clientset)
			group := &gangsv1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", CreationTimestamp: metav1.Now()},
				Spec: gangsv1.PodGroupSpec{MinMember: max(tc.minMember, 1)}}
			must(t, coscheduling.RegisterGroups(profile.SharedInformerFactory(), []*gangsv1.PodGroup{group}))
			var pods []*corev1.Pod
			for i := range max(tc.minMember, 1) {
				wrapped := pod(fmt.Sprint("p", i), "1", "8")
				if tc.minMember > 0 {
					wrapped.Label(names.LabelPodGroup, "g")
				}
				known := c.known(wrapped, "")
				if _, err := api.CoreV1().Pods("default").Create(t.Context(), known, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				upstream.Add(c.scheduler.SchedulingQueue, known)
				pods = append(pods, known)
			}
			c.scheduler.ScheduleOne(t.Context())
			eventually(t, "the one that was tried to lose its place", func(ctx context.Context) (bool, error) {
				lost := false
				for _, pod := range pods {
					if waits := profile.GetWaitingPod(pod.UID); waits != nil {
						waits.Reject(coscheduling.Name, "the other does not come")
					}
					now, err := api.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
					if err != nil {
						return false, err
					}
					lost = lost || len(now.Status.Conditions) > 0
				}
				return lost, nil
			})
			announced := false
			for _, action := range api.Actions() {
				if patch, ok := action.(clienttesting.PatchAction); ok {
					announced = announced || strings.Contains(string(patch.GetPatch()), `"nominatedNodeName":"`)
				}
			}
			if announced != tc.announced {
				t.Errorf("it is announced: %v, want %v", announced, tc.announced)
			}
		})
	}
}

func eventually(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, bounds.Of(10*time.Second), true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
