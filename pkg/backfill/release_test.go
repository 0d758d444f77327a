package backfill

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhomAReleaseHelps: those whom the promise kept out, also if it did not count any more when it ended, as nobody is told of that.
func TestWhomAReleaseHelps(t *testing.T) {
	promised := func(job string, at int) *Promise {
		return &Promise{Turn: Turn{Job: job, Priority: 10, Since: noon}, At: after(at), Places: map[string]Place{
			"n": {Needs: cycle.AsksOf(podOf("large", 8, 0)), Leaving: sets.New[types.UID]()},
		}}
	}
	node := fixture.Node("n").GPUs(8, "T4").Obj()
	for name, tc := range map[string]struct {
		before, after []*Promise
		turn          Turn
		want          bool
	}{
		"it is over":                    {before: []*Promise{promised("large", 60)}, want: true},
		"it had not counted for long":   {before: []*Promise{promised("large", -600)}, want: true},
		"another has come in its place": {before: []*Promise{promised("large", 60)}, after: []*Promise{promised("larger", 60)}},
		"the pod comes before it":       {before: []*Promise{promised("large", 60)}, turn: Turn{Job: "a", Priority: 20}},
		"it is the pod's own":           {before: []*Promise{promised("large", 60)}, turn: Turn{Job: "large"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.turn.Job == "" {
				tc.turn = Turn{Job: "a", Priority: 1, Since: noon}
			}
			promises := NewPromises(nil)
			promises.LineUp(func(*corev1.Pod) Turn { return tc.turn })
			change := Release{before: &Book{promises: tc.before}, after: &Book{promises: tc.after}, of: promises, now: after(0)}
			on := change.Helps(podOf("a", 1, 0))
			if got := on != nil && on(node); got != tc.want {
				t.Errorf("it helps: %v, want %v", got, tc.want)
			}
		})
	}
}
