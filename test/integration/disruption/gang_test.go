package disruption

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
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
		"an eviction": {lose: (*env).Evict, by: "EvictionByEvictionAPI", most: clustertest.Soon},
		"kubectl drain": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Kubectl("drain", pod.Spec.NodeName, "--delete-emptydir-data", "--ignore-daemonsets")
			},
			by: "EvictionByEvictionAPI", most: clustertest.Soon,
		},
		"a node that is gone": {
			lose: func(e *env, pod *corev1.Pod) {
				e.die(pod.Spec.NodeName)
				e.Kubectl("taint", "node", pod.Spec.NodeName, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
			},
			by: "DeletionByTaintManager", most: time.Minute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 2, Leaves: ptr.To(1)})
			tc.lose(e, members[1])
			lost := e.Ended(members[1])
			e.disrupted(lost.Pod, tc.by)
			e.AgainSoon("pretrain", members[1], lost.Ended)
			if seen := e.History.Of(members[0].UID); !seen.Ended.IsZero() || seen.Pod.DeletionTimestamp != nil {
				t.Error("the other member was ended, too")
			}
			if status := e.Status("pretrain"); status.Failed != 0 || status.FailedIndexes != nil && *status.FailedIndexes != "" {
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
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 2, Retries: 1})
	e.Evict(members[0])
	e.Kubectl("annotate", "pod", "-n", e.Namespace, members[1].Name, sandbox.AnnotationFailAfter+"=0s")
	room := e.Ended(members[0]).Ended
	e.AgainSoon("pretrain", members[0], room)
	room = e.Ended(members[1]).Ended
	e.AgainSoon("pretrain", members[1], room)
	e.Eventually("one failure to be counted", func(context.Context) (bool, error) {
		return e.Status("pretrain").Failed == 1, nil
	})
}

// TestAPreemptedGangRunsAgain has a job of high priority take the place of a member.
func TestAPreemptedGangRunsAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Start(clustertest.Job{Name: "pretrain", Priority: "low", GPUs: 8, Nodes: 3})
	e.Submit(clustertest.Job{Name: "urgent", Priority: "high", GPUs: 8})
	urgent := e.Running("urgent", 1)[0]
	_, victim := e.victim([]string{"pretrain"})
	e.disrupted(victim, "PreemptionByScheduler")
	e.cancel("urgent")
	room := e.Ended(urgent).Ended
	e.AgainSoon("pretrain", victim, room)
	if status := e.Status("pretrain"); status.Failed != 0 {
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
			members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 3})
			for _, member := range members[:lost] {
				e.Evict(member)
			}
			for _, member := range members[:lost] {
				room := e.Ended(member).Ended
				e.AgainSoon("pretrain", member, room)
			}
			if status := e.Status("pretrain"); status.Failed != 0 {
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
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 3})
	e.cordon(members[2].Spec.NodeName, true)
	e.Evict(members[2])
	e.Ended(members[2])
	e.shows("pretrain", inventory.StatusDegraded, string(reason.Busy))
	e.Stays("the others run on", 3*time.Second, func() bool { return len(e.History.Running("pretrain")) == 2 })
	e.cordon(members[2].Spec.NodeName, false)
	e.AgainWithin(2*time.Second, "pretrain", members[2], time.Now())
}

// TestAMemberComesBackUnderANewLeader kills the scheduler that has placed a gang, and evicts a member: the next scheduler
// knows of the members only what the cluster says.
func TestAMemberComesBackUnderANewLeader(t *testing.T) { // not beside the others, who need a scheduler
	e := newEnv(t)
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 2})
	if err := cluster.Scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	var err error
	if cluster.Scheduler, err = cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
	e.Evict(members[1])
	room := e.Ended(members[1]).Ended
	e.AgainSoon("pretrain", members[1], room)
}
