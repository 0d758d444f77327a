package queue

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// refusedWith is a waiting pod on which the scheduler has spoken.
func refusedWith(verdict string, pod corev1.Pod) corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: verdict,
	}}
	return pod
}

func changed(node corev1.Node, f func(*corev1.Node)) corev1.Node {
	f(&node)
	return node
}

// TestStartsOnlyWhatCan has jobs for which GPUs are free, and which do not start.
func TestStartsOnlyWhatCan(t *testing.T) {
	sick := func(cards ...int) func(*corev1.Node) {
		return func(n *corev1.Node) {
			text := fixture.Cards(n.Name, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000).Unhealthy(cards...).Annotation(t)
			n.Annotations = map[string]string{names.AnnotationInventory: text}
		}
	}
	idle, pinned := node("n1", "8"), func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "fast" }
	dead, ofKubeRay := snapshot.Leader{State: snapshot.LeaderDead}, func(p *corev1.Pod) { p.Spec.SchedulerName = names.SchedulerPluginsName }
	tests := map[string]struct {
		objects *snapshot.Snapshot
		leader  *snapshot.Leader
		never   bool
		cause   reason.Cause
		says    string
	}{
		"there is room": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}}},
		"a request that cannot be read": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{change(asks("a", "1", 5, 0), func(p *corev1.Pod) {
				p.Annotations = map[string]string{names.AnnotationGPUMemoryMin: "much"}
			})}},
			never: true, cause: reason.MalformedRequest, says: "cannot be read",
		},
		"no rack holds all members": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith(reason.GangDomainTooSmall.Text.FormatText("rack", 2, "1 in r1"), asks("a", "1", 5, 0))}},
			never:   true, says: "no rack takes all 2 members",
		},
		"no node says in which rack it is": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith(reason.GangUnlabelled.Text.FormatText(names.LabelRack, "rack"), asks("a", "1", 5, 0))}},
			never:   true, says: "has the label " + names.LabelRack,
		},
		"no rack has room for all now": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith(reason.GangDomainFull.Text.FormatText("rack", 2, "1 in r1"), asks("a", "1", 5, 0))}},
			says:    "no rack has room for all 2 members now",
		},
		"it holds out for a rack": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith(reason.GangHoldsOut.Text.FormatText("rack", 2, "2026-01-01T13:00:00Z"), asks("a", "1", 5, 0))}},
			says:    "it holds out for one until 2026-01-01T13:00:00Z",
		},
		"a pool that is cordoned": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{changed(idle, func(n *corev1.Node) { n.Spec.Unschedulable = true })}, Pods: []corev1.Pod{asks("a", "1", 5, 0)}},
			cause:   reason.Cordoned, says: "no node of pool train takes it now, however empty: 1 cordoned",
		},
		"a pool with a taint": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{changed(idle, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "owner", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			})}, Pods: []corev1.Pod{asks("a", "1", 5, 0)}},
			cause: reason.Tainted, says: "1 with a taint",
		},
		"a node that is down": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{changed(idle, func(n *corev1.Node) { n.Status.Conditions = nil })}, Pods: []corev1.Pod{asks("a", "1", 5, 0)}},
			cause:   reason.NotReady, says: "1 not ready",
		},
		"the scheduler is dead": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{asks("a", "1", 5, 0)}}, leader: &dead,
			cause: reason.SchedulerDown, says: "no gpu-scheduler is running",
		},
		"a profile that the scheduler seems to lack": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{change(asks("a", "1", 5, 2*time.Minute), ofKubeRay)}}, leader: &snapshot.Leader{State: snapshot.Leads},
			cause: reason.OtherScheduler, says: "gpu-scheduler runs, and likely has no profile",
		},
		"there is room, and the scheduler of the profile leads since a moment": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{change(asks("a", "1", 5, 2*time.Minute), ofKubeRay)}},
			leader:  &snapshot.Leader{State: snapshot.Leads, Since: t0.Add(-time.Second)},
		},
		"a volume that is not there": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith(`0/1 nodes are available: persistentvolumeclaim "data" not found.`, asks("a", "1", 5, 0))}},
			cause:   reason.VolumeMissing, says: "no PersistentVolumeClaim data",
		},
		"a volume in another zone": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith("0/1 nodes are available: 1 node(s) had volume node affinity conflict.", asks("a", "1", 5, 0))}},
			cause:   reason.VolumeElsewhere, says: "bound to other nodes or another zone",
		},
		"a node that is kept whole": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{refusedWith("0/1 nodes are available: 1 node(s) are kept whole for pods that take a whole node.", asks("a", "1", 5, 0))}},
			cause:   reason.KeptWhole, says: "the last idle nodes of the pool are kept",
		},
		"pinned to a node that is cordoned": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle, changed(node("n2", "8"), func(n *corev1.Node) {
				n.Labels["disk"] = "fast"
				n.Spec.Unschedulable = true
			})}, Pods: []corev1.Pod{change(asks("a", "1", 5, 0), pinned)}},
			cause: reason.Cordoned, says: "1 cordoned",
		},
		"pinned to a node that is full": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle, changed(node("n2", "8"), func(n *corev1.Node) { n.Labels["disk"] = "fast" })},
				Pods: []corev1.Pod{on("n2", asks("runs", "8", 5, 0)), change(asks("a", "1", 5, 0), pinned)}},
			says: "",
		},
		"pinned to no node that is there": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{change(asks("a", "1", 5, 0), pinned)}}, never: true,
		},
		"too few healthy cards": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{changed(idle, sick(0, 1))}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}},
			cause:   reason.UnhealthyGPUs, says: "1 with too few healthy GPUs",
		},
		"the cards that are free are not healthy": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{changed(idle, sick(0, 1))}, Pods: []corev1.Pod{on("n1", asks("runs", "6", 5, 0)), asks("a", "1", 5, 0)}},
		},
		"GPUs are free, and CPU is not": {
			objects: &snapshot.Snapshot{Nodes: []corev1.Node{idle}, Pods: []corev1.Pod{change(on("n1", asks("runs", "1", 5, 0)), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Ti")
			}), change(asks("a", "1", 5, 0), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
			})}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			entry := Build(tc.objects, nil, tc.leader, t0).Entries[0]
			if starts := entry.ETA != nil; starts != strings.HasPrefix(name, "there is room") {
				t.Errorf("it starts: %v", starts)
			}
			if entry.Never != tc.never || entry.Cause != tc.cause || !strings.Contains(entry.Message, tc.says) {
				t.Errorf("never %t, cause %q: %s\nwant never %t, cause %q, and %q", entry.Never, entry.Cause, entry.Message, tc.never, tc.cause, tc.says)
			}
		})
	}
}

// TestWhatIsBlockedHoldsNobodyUp has a job behind one that does not start whatever room there is.
func TestWhatIsBlockedHoldsNobodyUp(t *testing.T) {
	missing := refusedWith(`0/1 nodes are available: persistentvolumeclaim "data" not found.`, asks("a", "8", 5, time.Minute))
	entries := Build(&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{missing, asks("b", "8", 5, 0)}}, nil, nil, t0).Entries
	if entries[0].ETA != nil || entries[1].ETA == nil {
		t.Errorf("they start %v and %v, want never and now", entries[0].ETA, entries[1].ETA)
	}
}

// TestAVerdictOnSomeNodesIsNoneOnTheOthers: a pod for which a port is taken on one node starts when another has GPUs.
func TestAVerdictOnSomeNodesIsNoneOnTheOthers(t *testing.T) {
	waits := refusedWith("0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 1 node(s) have too few free GPUs.",
		asks("a", "8", 5, 0))
	full := &snapshot.Snapshot{
		Nodes: []corev1.Node{node("n1", "8")}, Jobs: []batchv1.Job{limited("runs", time.Hour)},
		Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), waits},
	}
	if entry := Build(full, nil, nil, t0).Entries[0]; entry.Cause != "" || entry.ETA == nil || !entry.ETA.Equal(t0.Add(time.Hour)) {
		t.Errorf("it starts at %v for cause %q, want in an hour", entry.ETA, entry.Cause)
	}
}

// TestAPromiseSaysWhenAJobStarts, where the line as it is played does not, or says later.
func TestAPromiseSaysWhenAJobStarts(t *testing.T) {
	const busy = "0/1 nodes are available: 1 node(s) have too few free GPUs. preemption: "
	in := func(wait time.Duration) string {
		return busy + reason.StartReserved.Text.FormatText(1, t0.Add(wait).Format(time.RFC3339))
	}
	for name, tc := range map[string]struct {
		verdict string
		// limits are those of who runs there.
		limits []batchv1.Job
		want   time.Duration // 0 for not known
	}{
		"nobody else says when":         {verdict: in(time.Hour), want: time.Hour},
		"it is sooner than all say":     {verdict: in(time.Hour), limits: []batchv1.Job{limited("runs", 2*time.Hour)}, want: time.Hour},
		"it is later":                   {verdict: in(3 * time.Hour), limits: []batchv1.Job{limited("runs", 2*time.Hour)}, want: 2 * time.Hour},
		"its time is over":              {verdict: in(-time.Minute)},
		"it is expected, and not sure":  {verdict: reason.StartReservedAsExpected.Text.FormatText(1, t0.Add(time.Hour).Format(time.RFC3339))},
		"it is no time":                 {verdict: reason.StartReserved.Text.FormatText(1, "soon")},
		"a volume is missing beside it": {verdict: `persistentvolumeclaim "data" not found. ` + in(time.Hour)},
		"nothing is promised":           {verdict: "0/1 nodes are available: 1 node(s) have too few free GPUs."},
		"it will lie in one domain":     {verdict: busy + reason.StartReservedIn.Text.FormatText(1, "rack r1", t0.Add(time.Hour).Format(time.RFC3339)), want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			full := &snapshot.Snapshot{
				Nodes: []corev1.Node{node("n1", "8")}, Jobs: tc.limits,
				Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), refusedWith(tc.verdict, asks("a", "8", 5, 0))},
			}
			var got time.Duration
			if eta := Build(full, nil, nil, t0).Entries[0].ETA; eta != nil {
				got = eta.Sub(t0)
			}
			if got != tc.want {
				t.Errorf("it starts after %s, want %s", got, tc.want)
			}
		})
	}
}

// TestRefusedJobsAreShown: a quota keeps their pods from being created, so that they are in no line.
func TestRefusedJobsAreShown(t *testing.T) {
	job := inventory.Job{
		Name: "big", Namespace: "team", Kind: "training", Pool: "train", Priority: "high", GPUs: 4, Desired: 1, Created: t0,
		Trouble: inventory.Trouble{Reason: quota.Reason, Message: "asks 4 GPUs"}, Excess: &quota.Excess{Never: true},
	}
	other := inventory.Job{Name: "other", Namespace: "team", Pool: "train", GPUs: 4}
	entries := Build(&snapshot.Snapshot{
		Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{asks("a", "8", 5, 0)},
	}, []inventory.Job{job, other}, nil, t0).Entries
	if len(entries) != 2 || entries[0].Position != 1 || entries[0].JobsAhead != 0 {
		t.Fatalf("entries %+v", entries)
	}
	got := entries[1]
	if got.Name != "big" || got.Position != 0 || !got.Never || got.Cause != reason.QuotaExceeded || got.PriorityClass != names.PriorityClassHigh || got.ETA != nil {
		t.Errorf("got %+v", got)
	}
}

// TestAnArrayThatAQuotaKeepsOutInPart has one line: that of the pods which wait, or else what is refused.
func TestAnArrayThatAQuotaKeepsOutInPart(t *testing.T) {
	job := inventory.Job{
		Name: "a", Namespace: "team", Kind: "training", Pool: "train", Desired: 10, GPUs: 20, PodGPUs: 2, Refused: 3,
		Array: &inventory.Array{Tasks: 100, AtOnce: 10}, Excess: &quota.Excess{},
	}
	none := Build(&snapshot.Snapshot{}, []inventory.Job{job}, nil, t0).Entries
	if len(none) != 1 || none[0].Pods != 3 || none[0].GPUs != 6 || none[0].Position != 0 {
		t.Errorf("with no pod in line it is %+v", none)
	}
	some := Build(&snapshot.Snapshot{Pods: []corev1.Pod{asks("a", "2", 5, 0)}}, []inventory.Job{job}, nil, t0).Entries
	if len(some) != 1 || some[0].Position != 1 {
		t.Errorf("with a pod in line it is %+v", some)
	}
}
