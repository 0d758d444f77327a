package coscheduling

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstream "sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func member(group string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.LabelPodGroup: group}}}
}

func TestPodsOfNoGroupHearNothing(t *testing.T) {
	result, status := (&Plugin{}).PostFilter(t.Context(), nil, &corev1.Pod{}, nil)
	if result != nil || status.Code() != fwk.Unschedulable || len(status.Reasons()) > 0 {
		t.Errorf("got %v and %v, want no result and no reason", result, status)
	}
}

func TestSignPod(t *testing.T) {
	if fragments, status := (&Plugin{}).SignPod(t.Context(), &corev1.Pod{}); !status.IsSuccess() || len(fragments) > 0 {
		t.Errorf("a pod of no group: %v and %v, want nothing, so that alike pods are placed in batches", fragments, status)
	}
	if _, status := (&Plugin{}).SignPod(t.Context(), member("g")); status.Code() != fwk.Unschedulable {
		t.Errorf("a member: %v, want a refusal, for its fate hangs on the others", status)
	}
}

func TestMembersWaitForWhatMakesRoom(t *testing.T) {
	plugin := &Plugin{Coscheduling: &upstream.Coscheduling{}}
	events, err := plugin.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, event := range map[string]fwk.ClusterEvent{
		"a pod has left":            {Resource: fwk.Pod, ActionType: fwk.Delete},
		"a node has come":           {Resource: fwk.Node, ActionType: fwk.Add},
		"a node has more GPUs":      {Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable},
		"a node joined the pool":    {Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel},
		"a sibling has come":        {Resource: fwk.Pod, ActionType: fwk.Add},
		"the group itself has come": {Resource: "podgroups.v1alpha1.scheduling.x-k8s.io", ActionType: fwk.Add},
	} {
		if !slices.ContainsFunc(events, func(e fwk.ClusterEventWithHint) bool {
			return e.Event.Resource == event.Resource && e.Event.ActionType&event.ActionType != 0
		}) {
			t.Errorf("members are not tried again when %s", what)
		}
	}
}

// TestAGangThatHasBegunComesFirst among pods of its priority, so that no other takes the places of its siblings.
func TestAGangThatHasBegunComesFirst(t *testing.T) {
	queued := func(pod *corev1.Pod) fwk.QueuedPodInfo {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		return &framework.QueuedPodInfo{PodInfo: info}
	}
	plugin := &Plugin{}
	begun, other := member("begun"), member("other")
	group, _ := groupOf(begun)
	plugin.started.begin(group)
	if !plugin.Less(queued(begun), queued(other)) || plugin.Less(queued(other), queued(begun)) {
		t.Error("another gang comes before the siblings of a member that has a place")
	}
	plugin.started.end(group)
	if plugin.hasBegun(begun) {
		t.Error("a gang that gave up its places is still taken to have begun")
	}
}
