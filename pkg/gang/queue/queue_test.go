package queue

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestWhichPodComesFirst has what decides, in its order.
func TestWhichPodComesFirst(t *testing.T) {
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	key := func(name string, change func(*SortKey)) SortKey {
		k := SortKey{Pod: pod(name), Namespace: "ns", Name: name, Position: Position{At: noon}}
		change(&k)
		return k
	}
	same := func(*SortKey) {}
	for name, tc := range map[string]struct {
		first, second SortKey
		called        bool // the first one
	}{
		"a higher priority, whatever has begun": {key("b", func(k *SortKey) { k.Priority = 1 }), key("a", func(k *SortKey) { k.HasBegun = true }), false},
		"a gang that has begun":                 {key("b", func(k *SortKey) { k.HasBegun = true }), key("a", func(k *SortKey) { k.IsReplacement = true }), false},
		"a replacement":                         {key("b", func(k *SortKey) { k.IsReplacement = true }), key("a", func(k *SortKey) { k.At = noon.Add(-time.Hour) }), false},
		"the pod that is called":                {key("b", same), key("a", func(k *SortKey) { k.At = noon.Add(-time.Hour) }), true},
		"the one that came before":              {key("b", same), key("a", func(k *SortKey) { k.At = noon.Add(time.Second) }), false},
		"by namespace, at the same time":        {key("b", same), key("a", func(k *SortKey) { k.Namespace = "other" }), false},
		"by the index in a gang":                {key("g-2", func(k *SortKey) { k.Group = "g" }), key("g-10", func(k *SortKey) { k.Group = "g" }), false},
		"by name":                               {key("a", same), key("b", same), false},
	} {
		var called *corev1.Pod
		if tc.called {
			called = tc.first.Pod
		}
		if !tc.first.ComesBefore(tc.second, called) || tc.second.ComesBefore(tc.first, called) {
			t.Errorf("%s does not come first", name)
		}
	}
}

// TestPositionsAreForgottenAWhileAfterTheirPods: the queue learns later that a pod is gone.
func TestPositionsAreForgottenAWhileAfterTheirPods(t *testing.T) {
	var p Positions
	for _, pod := range []types.UID{"a", "b"} {
		p.RecordPosition(pod, &Position{HasBegun: true})
	}
	p.RecordGone("a", noon)
	if as, ok := p.PositionOf("a"); !ok || !as.HasBegun {
		t.Error("it is forgotten at once")
	}
	p.RecordPosition("b", nil)
	p.RecordGone("c", noon.Add(Retention))
	if kept, gone := p.CountKept(); kept != 0 || gone != 0 {
		t.Errorf("%d are kept, of which %d are gone", kept, gone)
	}
}

// TestAFailedPodIsQueuedSinceItsFailure, if it waits at all.
func TestAFailedPodIsQueuedSinceItsFailure(t *testing.T) {
	var p Positions
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Namespace: "ns"}}
	p.RecordFailure("a", noon)
	if at := p.QueuedSince("a"); at != nil {
		t.Errorf("queued since %s, and never queued", at)
	}
	p.RecordQueued(pod, noon)
	p.RecordQueued(pod, noon.Add(time.Minute))
	if at := p.QueuedSince("a"); at == nil || !at.Equal(noon) {
		t.Errorf("queued since %v, want noon", at)
	}
	p.RecordFailure("a", noon.Add(time.Hour))
	if at := p.QueuedSince("a"); at == nil || !at.Equal(noon.Add(time.Hour)) {
		t.Errorf("queued since %v, want an hour later", at)
	}
	if news := len(p.TakeQueued()); news != 2 || len(p.TakeQueued()) > 0 {
		t.Errorf("%d arrivals are reported, want 2, once", news)
	}
}
