package coscheduling

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
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

// TestAMemberWaitsForNoSiblingThatHasSucceeded of its own Job: those of an earlier one of the same name do not count.
func TestAMemberWaitsForNoSiblingThatHasSucceeded(t *testing.T) {
	of := func(owner types.UID) *corev1.Pod {
		pod := member("g")
		pod.Name, pod.Spec.NodeName = "of-"+string(owner), "n1"
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", UID: owner, Controller: ptr.To(true)}}
		return pod
	}
	kept, err := onlyOwners(of("now"))
	if err != nil {
		t.Fatal(err)
	}
	members := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byController: controllerKeys})
	if err := members.Add(kept); err != nil {
		t.Fatal(err)
	}
	plugin := &Plugin{finished: finished{members: members}}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a sibling has succeeded":                {of("now"), true},
		"one of an earlier job of the same name": {of("later"), false},
		"nobody made the pod":                    {member("g"), false},
	} {
		if got := plugin.finished.before(tc.pod); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	if _, status := plugin.PreFilter(t.Context(), nil, of("now"), nil); !status.IsSuccess() {
		t.Errorf("PreFilter: %v", status)
	}
	if status, wait := plugin.Permit(t.Context(), nil, of("now"), "n1"); !status.IsSuccess() || wait != 0 {
		t.Errorf("Permit: %v, %v", status, wait)
	}
	if pod := kept.(*corev1.Pod); pod.Spec.NodeName != "" || len(pod.Labels) > 0 {
		t.Errorf("too much is kept of a pod that has finished: %+v", pod)
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
