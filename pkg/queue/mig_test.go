package queue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

const slice = names.ResourceMIGPrefix + "3g.40gb"

// sliced asks for MIG slices instead of whole GPUs.
func sliced(count string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		asked := corev1.ResourceList{slice: resource.MustParse(count)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: asked, Limits: asked}
	}
}

// TestJobsOfSlicesWaitInLine has jobs that ask for no whole GPU, behind and before one that does.
func TestJobsOfSlicesWaitInLine(t *testing.T) {
	offers := node("n1", "8")
	offers.Status.Allocatable[slice] = resource.MustParse("2")
	line := Build(&snapshot.Snapshot{Nodes: []corev1.Node{offers}, Pods: []corev1.Pod{
		on("n1", asks("runs", "8", 5, time.Hour)),
		change(asks("sliced", "0", 9, time.Minute), sliced("2")),
		change(asks("large", "0", 7, time.Minute), sliced("3")),
		asks("whole", "1", 5, time.Minute),
	}}, []inventory.Job{
		{Name: "bounded", Namespace: "team", Pool: "train", MIG: []inventory.AskedProfile{{Profile: "3g.40gb", Count: 1}}, Excess: &quota.Excess{}},
		{Name: "cpu-only", Namespace: "team", Pool: "train", Excess: &quota.Excess{}},
	}, nil, t0)
	type entry struct {
		Name            string
		Position, Ahead int
		Never, Now      bool
		Slices          int64
	}
	var got []entry
	for _, e := range line.Entries {
		found := entry{Name: e.Name, Position: e.Position, Ahead: e.JobsAhead, Never: e.Never, Now: e.ETA != nil && e.ETA.Equal(t0)}
		for _, asked := range e.MIG {
			found.Slices += asked.Count
		}
		got = append(got, found)
	}
	want := []entry{
		{Name: "sliced", Position: 1, Now: true, Slices: 2},
		{Name: "large", Position: 2, Ahead: 1, Never: true, Slices: 3},
		{Name: "whole", Position: 3, Ahead: 2},
		{Name: "bounded", Slices: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSlicesOfABrokenCard start nobody, and whoever waits for them is not told that it never starts: cards are mended.
func TestSlicesOfABrokenCard(t *testing.T) {
	offers := node("n1", "0")
	offers.Status.Allocatable[slice] = resource.MustParse("4") // kubelet counts those of the broken card still
	offers.Annotations = map[string]string{
		names.AnnotationInventory: fixture.Cards("n1", 81920, 81920).Unhealthy(1).Sliced("3g.40gb", 2, 0, 1).Annotation(t),
	}
	for count, want := range map[string]Entry{
		"2": {ETA: &t0}, "3": {Cause: reason.UnhealthyGPUs}, "5": {Never: true},
	} {
		got := Build(&snapshot.Snapshot{Nodes: []corev1.Node{offers}, Pods: []corev1.Pod{change(asks("a", "0", 5, 0), sliced(count))}}, nil, nil, t0).Entries[0]
		if got.Never != want.Never || got.Cause != want.Cause || (got.ETA == nil) != (want.ETA == nil) {
			t.Errorf("%s slices: never %t, cause %q, starts %v; want %t, %q, %v", count, got.Never, got.Cause, got.ETA, want.Never, want.Cause, want.ETA)
		}
	}
	waits := Build(&snapshot.Snapshot{Nodes: []corev1.Node{offers}, Pods: []corev1.Pod{
		on("n1", change(asks("runs", "0", 5, time.Hour), sliced("1"))), change(asks("a", "0", 5, 0), sliced("2")),
	}}, nil, nil, t0).Entries[0]
	if waits.ETA != nil || waits.Never || waits.Cause != "" {
		t.Errorf("with one of two healthy slices free, it starts %v, never %t, cause %q; want that it waits", waits.ETA, waits.Never, waits.Cause)
	}
}
