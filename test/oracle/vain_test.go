package oracle

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// evicted is a pod that leaves its node for others.
func evicted(pod *corev1.Pod) *corev1.Pod {
	return with(leaving(pod), func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		})
	})
}

func ofPriority(priority int32, pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) { p.Spec.Priority = ptr.To(priority) })
}

// keptFor is a pod that waits, and for which others leave a node.
func keptFor(pod *corev1.Pod, node string) *corev1.Pod {
	return with(pending(pod), func(p *corev1.Pod) { p.Status.NominatedNodeName = node })
}

func elsewhere(node string, pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) { p.Spec.NodeName = node })
}

func TestInVainFindsWhoLeftForNothing(t *testing.T) {
	low := func(name string) *corev1.Pod { return ofPriority(-1, wholePod(name, 0)) }
	high := func() *corev1.Pod { return ofPriority(1, wholePod("high", 0)) }
	later := func(seconds int64, h History, pods ...*corev1.Pod) History {
		for i, pod := range pods {
			h = append(h, Event{Revision: h[len(h)-1].Revision + seconds + int64(i), Type: watch.Modified, Pod: pod})
		}
		return h
	}
	away := func(h History) History { // those that leave have gone
		there := map[string]*corev1.Pod{}
		for i := range h {
			if pod := h[i].Pod; pod != nil && pod.DeletionTimestamp != nil && h[i].Type != watch.Deleted {
				there[pod.Name] = pod
			}
		}
		for _, name := range slices.Sorted(maps.Keys(there)) {
			h = append(h, Event{Revision: h[len(h)-1].Revision, Type: watch.Deleted, Pod: there[name]})
		}
		return h
	}
	stays := func(h History) History { // two minutes pass
		return append(h, Event{Revision: h[len(h)-1].Revision + 120, Type: watch.Modified, Node: h[0].Node})
	}
	quiet := func(h History) History { return stays(away(h)) }
	vain := []Violation{{Revision: 12, Rule: Vain, Node: "whole", Pods: []string{"ns/low"}, Detail: "within 1m0s"}}
	tests := map[string]struct {
		history History
		want    []Violation
	}{
		"nothing comes":                             {history: quiet(after(low("low"), evicted(low("low")))), want: vain},
		"it is told of as it is deleted":            {history: quiet(append(after(low("low")), Event{Revision: 12, Type: watch.Deleted, Pod: evicted(low("low"))})), want: vain},
		"one of its own priority comes":             {history: quiet(after(low("low"), evicted(low("low")), low("next"))), want: vain},
		"one comes elsewhere":                       {history: quiet(after(low("low"), evicted(low("low")), elsewhere("sharing", high()))), want: vain},
		"one comes too late":                        {history: quiet(later(61, away(after(low("low"), evicted(low("low")))), high())), want: vain},
		"one waits":                                 {history: quiet(after(low("low"), evicted(low("low")), pending(high()))), want: vain},
		"one was there before":                      {history: quiet(after(high(), low("low"), evicted(low("low")))), want: []Violation{{Revision: 13, Rule: Vain, Node: "whole", Pods: []string{"ns/low"}, Detail: "within 1m0s"}}},
		"one of higher priority comes":              {history: quiet(after(low("low"), evicted(low("low")), high()))},
		"one comes within the time":                 {history: quiet(later(59, away(after(low("low"), evicted(low("low")))), high()))},
		"it takes its time to leave":                {history: quiet(later(59, away(later(61, after(low("low"), evicted(low("low"))), evicted(low("low")))), high()))},
		"it has not gone yet":                       {history: stays(after(low("low"), evicted(low("low"))))},
		"the one that it left for starts elsewhere": {history: quiet(after(low("low"), evicted(low("low")), keptFor(high(), "whole"), elsewhere("sharing", high())))},
		"the one that it left for is deleted":       {history: quiet(after(low("low"), evicted(low("low")), keptFor(high(), "whole"), leaving(keptFor(high(), "whole"))))},
		"one is deleted that it did not leave for":  {history: quiet(after(low("low"), evicted(low("low")), keptFor(high(), "sharing"), leaving(keptFor(high(), "sharing")))), want: vain},
		"one that is guaranteed its GPUs comes":     {history: quiet(after(low("low"), evicted(low("low")), with(low("owner"), func(p *corev1.Pod) { p.Namespace = "other" })))},
		"it is not judged yet":                      {history: after(low("low"), evicted(low("low")))},
		"its user has deleted it":                   {history: quiet(after(low("low"), leaving(low("low"))))},
		"a gang leaves, and one comes for it": {history: quiet(after(
			ofJob("g", "0", low("a")), elsewhere("sharing", ofJob("g", "1", low("b"))), evicted(ofJob("g", "0", low("a"))),
			evicted(elsewhere("sharing", ofJob("g", "1", low("b")))), elsewhere("sharing", high())))},
		"a gang leaves, and nothing comes": {history: quiet(after(
			ofJob("g", "0", low("a")), ofJob("g", "1", low("b")), evicted(ofJob("g", "0", low("a"))), evicted(ofJob("g", "1", low("b"))))),
			want: []Violation{{Revision: 13, Rule: Vain, Node: "whole", Pods: []string{"ns/a", "ns/b"}, Detail: "within 1m0s"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for i := range tc.history { // a revision is a second
				tc.history[i].Seen = time.Unix(tc.history[i].Revision, 0)
			}
			if diff := cmp.Diff(tc.want, InVain(tc.history, time.Minute)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			judged := slices.DeleteFunc(Check(tc.history), func(v Violation) bool { return v.Rule != Vain })
			if diff := cmp.Diff(tc.want, judged, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("violations by Check (-want +got):\n%s", diff)
			}
		})
	}
}
