package server

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// oneWaits is a cluster with one node, on which a pod runs for which another one waits.
func oneWaits(now time.Time) *snapshot.Snapshot {
	node := fixture.Node("n").GPUs(8, "A100").Label(names.LabelPool, "train").Obj()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	runs, waits := fixture.Pod("runs").GPUs(8).Obj(), fixture.Pod("waits").GPUs(8).Obj()
	for _, pod := range []*corev1.Pod{runs, waits} {
		pod.Spec.SchedulerName, pod.Status.Phase = names.SchedulerName, corev1.PodPending
		pod.Spec.NodeSelector = map[string]string{names.LabelPool: "train"}
	}
	runs.Spec.NodeName, runs.Status.Phase, runs.Status.StartTime = "n", corev1.PodRunning, &metav1.Time{Time: now}
	return &snapshot.Snapshot{Nodes: []corev1.Node{*node}, Pods: []corev1.Pod{*runs, *waits}}
}

// TestTheLedgerIsAskedSeldom: however often the queue is asked for, and while it fails what it has said before counts.
func TestTheLedgerIsAskedSeldom(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	asked, broken, clock := 0, false, start
	o := &startEstimator{now: func() time.Time { return clock }, log: slog.New(slog.DiscardHandler), runs: func(context.Context, ledgerclient.Query) (runs []ledger.Run, more bool, err error) {
		if asked++; broken {
			return nil, false, errors.New("down")
		}
		for range 30 {
			runs = append(runs, ledger.Run{Namespace: "team", Pool: "train", GPUs: 8, Seconds: 3600})
		}
		return runs, false, nil
	}}
	objects := oneWaits(start)
	ask := func(after time.Duration) *time.Time {
		now := start.Add(after)
		clock = now
		line := queue.Build(objects, nil, nil, now)
		line.ApplyEstimates(o.estimatesFor(t.Context(), &line, objects, now), now)
		return line.Entries[0].Latest
	}
	steps := []struct {
		after  time.Duration
		broken bool
		asked  int
		known  bool
	}{
		{0, true, 1, false}, {31 * time.Second, true, 1, false}, {time.Minute, false, 1, false}, {62 * time.Second, false, 2, true},
		{70 * time.Second, true, 2, true}, {3 * time.Minute, false, 2, true}, {5 * time.Minute, false, 2, true},
		{12 * time.Minute, true, 3, true}, {12*time.Minute + 40*time.Second, true, 3, true}, {14 * time.Minute, true, 4, true},
	}
	for _, step := range steps {
		broken = step.broken
		if latest := ask(step.after); (latest != nil) != step.known || asked != step.asked {
			t.Errorf("after %s it starts by %v, want known %t; the ledger was asked %d times, want %d", step.after, latest, step.known, asked, step.asked)
		}
	}
	if got := (&startEstimator{}).estimatesFor(t.Context(), &queue.Queue{}, objects, start); len(got) != 0 {
		t.Errorf("without a ledger it tells %v", got)
	}
}

// TestWhoAsksMeanwhileDoesNotWait: while an outlook is made others have none yet, or the one before, and who has asked for it may go. The next
// is made some time after it is there.
func TestWhoAsksMeanwhileDoesNotWait(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	begun, finish := make(chan struct{}), make(chan struct{})
	asked := 0
	o := &startEstimator{now: func() time.Time { return start.Add(time.Minute) }, log: slog.New(slog.DiscardHandler)}
	o.runs = func(context.Context, ledgerclient.Query) ([]ledger.Run, bool, error) {
		asked++
		close(begun) // panics if it is made twice
		<-finish
		return slices.Repeat([]ledger.Run{{Namespace: "team", Pool: "train", GPUs: 8, Seconds: 3600}}, 30), false, nil
	}
	objects := oneWaits(start)
	ask := func(ctx context.Context, now time.Time) queue.StartEstimates {
		line := queue.Build(objects, nil, nil, now)
		told := o.estimatesFor(ctx, &line, objects, now)
		line.ApplyEstimates(told, now)
		return told
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { defer close(left); ask(ctx, start) }()
	<-begun
	if got := ask(t.Context(), start); len(got) != 0 {
		t.Errorf("while it is made others are told %v", got)
	}
	leave()
	<-left
	close(finish)
	for len(ask(t.Context(), start)) == 0 { // it is made for the others
		runtime.Gosched()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if want := start.Add(time.Minute + estimatesTTL); asked != 1 || !o.untilAgain.Equal(want) {
		t.Errorf("the ledger was asked %d times, and the next is made after %s, want %s", asked, o.untilAgain, want)
	}
}
