package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestGangsAreExplained(t *testing.T) {
	type said struct {
		Cause reason.Cause
		Text  string
	}
	cases := map[string]struct {
		verdict string
		want    said
	}{
		"room for some": {
			"0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once. preemption: not eligible due to preemptionPolicy=Never.",
			said{reason.GangWaiting, "there is room for 1 of the 2 members of the job, which start together or not at all"},
		},
		"too few nodes in all": {
			"0/2 nodes are available: gang: the nodes that suit it have room for 2 of 3 members, even when they are empty.",
			said{reason.GangTooLarge, "the nodes that suit the job take 2 of its 3 members, even when they are empty"},
		},
		"a PodGroup that makes no sense": {
			"0/2 nodes are available: gang: the PodGroup cannot be used: spec.minMember is 3000000000, want a whole number from 1 to 10000. preemption: 0/2 nodes are available: 2 x.",
			said{reason.GangUnreadable, "the PodGroup of the job cannot be used: spec.minMember is 3000000000, want a whole number from 1 to 10000"},
		},
		"members are gated": {
			"0/2 nodes are available: gang: gated pods in the same PodGroup.",
			said{reason.SchedulingGated, "other members of the job are held back by a scheduling gate, and all start together or not at all"},
		},
		"members name another scheduler": {
			"0/2 nodes are available: gang: members that have no place yet name another scheduler: give all members of the PodGroup the same schedulerName.",
			said{reason.OtherScheduler, "members of the job name another scheduler, and all start together or not at all"},
		},
		"the PodGroup asks for more than is free": {
			"0/2 nodes are available: gang: the nodes have less cpu free than spec.minResources of the PodGroup asks for.",
			said{reason.GangWaiting, "the nodes have less cpu free than the PodGroup of the job asks for in spec.minResources"},
		},
		"another member found no place": {
			"0/1 nodes are available: 1 optimistic rejection in PostFilter.",
			said{reason.GangWaiting, "another member of the job found no place, and all start together or not at all"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := verdictFindings(tc.verdict, "team", slices.Concat(reason.GangReasons, reason.PodReasons))
			if len(found) != 1 {
				t.Fatalf("got %d findings, want 1: %v", len(found), found)
			}
			if diff := cmp.Diff(tc.want, said{found[0].Cause, found[0].WithText().Text}); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
			if len(found[0].Steps) == 0 {
				t.Error("there is no advice")
			}
		})
	}
}

// TestThePodsOfAGangAreBelieved more than a verdict from the time when they were still being created.
func TestThePodsOfAGangAreBelieved(t *testing.T) {
	const gathering = "0/2 nodes are available: pre-filter pod a-1-x cannot find enough sibling pods, current pods number: 1, minMember of group: 2."
	member := func(i int, verdict string) corev1.Pod {
		pod := refused(fixture.Pod(fmt.Sprint("a-", i)).GPUs(8).Pool("p"), verdict)
		pod.Labels[names.LabelPodGroup] = "a"
		return pod
	}
	gang := func(age time.Duration, pods ...corev1.Pod) Facts {
		return factsOf(pods[0], node("n1", "p", 8), node("n2", "p", 8)).with(func(f *Facts) {
			f.Pods, f.Job.Created = pods, noon.Add(-age)
		})
	}
	ended := member(1, "")
	ended.Status.Phase = corev1.PodFailed
	tests := map[string]struct {
		facts   Facts
		want    reason.Cause
		text    string
		deletes bool
	}{
		"all are there, and the nodes are free": {
			facts: gang(5*time.Second, member(0, gathering), member(1, gathering)), want: reason.WaitingForTurn, text: "all 2 members",
		},
		"all are there, and the nodes are held by others": {
			facts: gang(time.Hour, member(0, gathering), member(1, gathering)).with(func(f *Facts) {
				f.Cluster.Pods = []corev1.Pod{on("n1", 8, "other"), on("n2", 8, "other")}
			}),
			want: reason.Busy,
		},
		"the verdict on another member is newer": {
			facts: gang(time.Hour, member(0, gathering),
				member(1, "0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once.")).with(func(f *Facts) {
				f.Cluster.Pods = []corev1.Pod{on("n1", 3, "other")}
			}),
			want: reason.GangWaiting, text: "room for 1 of the 2",
		},
		"the verdict is older than the room": {
			facts: gang(time.Hour, member(0, "0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once."), member(1, "")),
			want:  reason.WaitingForTurn, text: "all 2 members",
		},
		"the second is being created": {facts: gang(5*time.Second, member(0, gathering)), want: reason.GangIncomplete, text: "yet to be created"},
		"the second has ended":        {facts: gang(time.Hour, member(0, gathering), ended), want: reason.GangIncomplete, text: "have ended", deletes: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(tc.facts)
			advice := strings.Join(report.Findings[0].Advice, "; ")
			if report.Cause != tc.want || !strings.Contains(report.Findings[0].Text, tc.text) || strings.Contains(advice, "delete the job") != tc.deletes {
				t.Errorf("cause %s, %+v; want %s with %q", report.Cause, report.Findings, tc.want, tc.text)
			}
		})
	}
}

// TestAGangThatWaitsForAMinRuntimeSaysUntilWhen.
func TestAGangThatWaitsForAMinRuntimeSaysUntilWhen(t *testing.T) {
	pod := refused(fixture.Pod("a-0").GPUs(8).Pool("p"), "0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once. "+
		"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling., "+reason.GangGuarded.Text.FormatText("2026-11-22T14:10:00Z")+".")
	pod.Labels[names.LabelPodGroup] = "a"
	report := Diagnose(factsOf(pod, node("n1", "p", 8)).with(func(f *Facts) {
		f.Pods, f.Cluster.Pods = []corev1.Pod{pod}, []corev1.Pod{on("n1", 3, "other")}
	}))
	last := report.Findings[len(report.Findings)-1]
	if last.Cause != reason.GangWaiting || !strings.HasSuffix(last.Text, "min-runtime, the first of them until 2026-11-22T14:10:00Z") {
		t.Errorf("told %+v", last)
	}
}

// TestWhyNobodyLeavesForAGangIsTold, which the scheduler says after the outcome of its search for victims; not when the gang is
// kept out no more.
func TestWhyNobodyLeavesForAGangIsTold(t *testing.T) {
	const verdict = "0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once. no new claims to deallocate, " +
		"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling., gang: nobody is evicted for it, which would be in vain: " +
		"PodTopologySpread: node(s) didn't match pod topology spread constraints."
	const told = "nobody of lower priority is evicted for the job, which could not start in their places: " +
		"PodTopologySpread: node(s) didn't match pod topology spread constraints"
	for name, tc := range map[string]struct {
		busy []corev1.Pod
		want []reason.Cause
	}{
		"room for one":     {busy: []corev1.Pod{on("n1", 3, "other")}, want: []reason.Cause{reason.GangWaiting, reason.RejectedByScheduler}},
		"room for none":    {busy: []corev1.Pod{on("n1", 8, "other"), on("n2", 8, "other")}, want: []reason.Cause{reason.Busy, reason.RejectedByScheduler}},
		"room for all now": {want: []reason.Cause{reason.WaitingForTurn}},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for i := range 2 {
				pod := refused(fixture.Pod(fmt.Sprint("a-", i)).GPUs(8).Pool("p"), verdict)
				pod.Labels[names.LabelPodGroup] = "a"
				pods = append(pods, pod)
			}
			report := Diagnose(factsOf(pods[0], node("n1", "p", 8), node("n2", "p", 8)).with(func(f *Facts) {
				f.Pods, f.Job.Created, f.Cluster.Pods = pods, noon.Add(-time.Hour), tc.busy
			}))
			var causes []reason.Cause
			for _, found := range report.Findings {
				causes = append(causes, found.Cause)
			}
			if !slices.Equal(causes, tc.want) {
				t.Fatalf("%+v, want %v", report.Findings, tc.want)
			}
			if last := report.Findings[len(causes)-1]; len(causes) > 1 && (last.Text != told || len(last.Advice) < 2) {
				t.Errorf("told %q, %q; want %q", last.Text, last.Advice, told)
			}
		})
	}
}
