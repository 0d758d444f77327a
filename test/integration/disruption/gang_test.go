package disruption

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// TestAGangThatLosesAMemberIsWholeAgain takes one of two pods of a job away: its place is filled, the other runs on.
func TestAGangThatLosesAMemberIsWholeAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lose func(*env, *corev1.Pod)
		by   string
		// most is how long it takes until the pod has ended.
		most time.Duration
	}{
		"an eviction": {lose: (*env).evict, by: "EvictionByEvictionAPI", most: soon},
		"kubectl drain": {
			lose: func(e *env, pod *corev1.Pod) {
				e.kubectl("drain", pod.Spec.NodeName, "--delete-emptydir-data", "--ignore-daemonsets")
			},
			by: "EvictionByEvictionAPI", most: soon,
		},
		"a node that is gone": {
			lose: func(e *env, pod *corev1.Pod) {
				e.die(pod.Spec.NodeName)
				e.kubectl("taint", "node", pod.Spec.NodeName, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
			},
			by: "DeletionByTaintManager", most: time.Minute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.start(job{name: "pretrain", gpus: 8, nodes: 2, leaves: ptr.To(1), retries: ptr.To(0)})
			members := e.running("pretrain", 2)
			tc.lose(e, members[1])
			lost, room := e.ended(members[1])
			e.disrupted(lost, tc.by)
			e.again("pretrain", members[1], room)
			if seen := e.history.of(members[0].UID); !seen.ended.IsZero() || seen.pod.DeletionTimestamp != nil {
				t.Error("the other member was ended, too")
			}
			if status := e.status("pretrain"); status.Failed != 0 || status.FailedIndexes != nil && *status.FailedIndexes != "" {
				t.Errorf("the job has failed: %+v", status)
			}
		})
	}
}

// TestAGangWhoseMembersFollowOneAnother has the second member fail because it misses the first, as torchrun does: that is
// a failure, and costs the member a retry.
func TestAGangWhoseMembersFollowOneAnother(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.start(job{name: "pretrain", gpus: 8, nodes: 2, retries: ptr.To(1)})
	members := e.running("pretrain", 2)
	e.evict(members[0])
	e.kubectl("annotate", "pod", "-n", e.namespace, members[1].Name, sandbox.AnnotationFailAfter+"=0s")
	_, room := e.ended(members[0])
	e.again("pretrain", members[0], room)
	_, room = e.ended(members[1])
	e.again("pretrain", members[1], room)
	e.eventually("one failure to be counted", func(context.Context) (bool, error) {
		return e.status("pretrain").Failed == 1, nil
	})
}

// TestAPreemptedGangRunsAgain has a job of high priority take the place of a member.
func TestAPreemptedGangRunsAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.start(job{name: "pretrain", priority: "low", gpus: 8, nodes: 3})
	e.submit(job{name: "urgent", priority: "high", gpus: 8})
	urgent := e.running("urgent", 1)[0]
	_, victim := e.victim([]string{"pretrain"})
	e.disrupted(victim, "PreemptionByScheduler")
	e.cancel("urgent")
	_, room := e.ended(urgent)
	e.again("pretrain", victim, room)
	if status := e.status("pretrain"); status.Failed != 0 {
		t.Errorf("the job has failed %d times", status.Failed)
	}
}

// TestAGangThatLosesSeveralMembersIsWholeAgain takes two and all of three members away at once.
func TestAGangThatLosesSeveralMembersIsWholeAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"two of three": 2, "all": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.start(job{name: "pretrain", gpus: 8, nodes: 3, retries: ptr.To(0)})
			members := e.running("pretrain", 3)
			for _, member := range members[:lost] {
				e.evict(member)
			}
			for _, member := range members[:lost] {
				_, room := e.ended(member)
				e.again("pretrain", member, room)
			}
			if status := e.status("pretrain"); status.Failed != 0 {
				t.Errorf("the job has failed %d times", status.Failed)
			}
		})
	}
}

// TestAGangWithoutRoomWaitsForIt evicts a member whose node is closed, with nowhere else to go: the others run on, and it
// comes back when the node is open again.
func TestAGangWithoutRoomWaitsForIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.start(job{name: "pretrain", gpus: 8, nodes: 3})
	members := e.running("pretrain", 3)
	e.cordon(members[2].Spec.NodeName, true)
	e.evict(members[2])
	e.ended(members[2])
	e.shows("pretrain", inventory.StatusDegraded, corev1.PodReasonUnschedulable)
	e.stays("the others run on", 3*time.Second, func() bool { return len(e.history.running("pretrain")) == 2 })
	e.cordon(members[2].Spec.NodeName, false)
	e.againWithin("pretrain", members[2], time.Now(), 2*time.Second)
}

// TestAMemberComesBackUnderANewLeader kills the scheduler that has placed a gang, and evicts a member: the next scheduler
// knows of the members only what the cluster says.
func TestAMemberComesBackUnderANewLeader(t *testing.T) { // not beside the others, who need a scheduler
	e := newEnv(t)
	e.start(job{name: "pretrain", gpus: 8, nodes: 2})
	members := e.running("pretrain", 2)
	if err := scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	var err error
	if scheduler, err = cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
	e.evict(members[1])
	_, room := e.ended(members[1])
	e.again("pretrain", members[1], room)
}
