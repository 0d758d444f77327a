package gpuscore

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestCensusFollowsWhoComesAndLeaves(t *testing.T) {
	pod := func(name, pool, gpus string) *corev1.Pod {
		made := st.MakePod().Name(name).UID(name).Label(names.LabelPool, pool)
		if gpus != "" {
			made.Req(map[corev1.ResourceName]string{names.ResourceGPU: gpus})
		}
		return made.Obj()
	}
	one, two := pod("one", "a", "1"), pod("two", "a", "2")
	ones, twos := ask{pool: "a", whole: 1}, ask{pool: "a", whole: 2}
	type in struct {
		pods map[ask]int64
		rate float64
	}
	steps := []struct {
		why  string
		pods []any
		want map[string]in
		// changed are the pools that are not what they were.
		changed []string
	}{
		{"those that were there before are not new", []any{one, two}, map[string]in{"a": {map[ask]int64{ones: 1, twos: 1}, 0}}, []string{"a"}},
		{"nothing changed", []any{two, one}, map[string]in{"a": {map[ask]int64{ones: 1, twos: 1}, 0}}, nil},
		{"two come, one leaves", []any{two, pod("three", "a", "2"), pod("four", "a", "2")},
			map[string]in{"a": {map[ask]int64{twos: 3}, 0.5}}, []string{"a"}},
		{"pods without cards are nobody", []any{two, pod("three", "a", "2"), pod("four", "a", "2"), pod("cpu", "a", "")},
			map[string]in{"a": {map[ask]int64{twos: 3}, 0.5}}, nil},
		{"nor are they when they leave", []any{two, pod("three", "a", "2"), pod("four", "a", "2")},
			map[string]in{"a": {map[ask]int64{twos: 3}, 0.5}}, nil},
		{"one leaves, another comes elsewhere", []any{two, pod("three", "a", "2"), pod("five", "b", "1")},
			map[string]in{"a": {map[ask]int64{twos: 2}, 1}, "b": {map[ask]int64{{pool: "b", whole: 1}: 1}, 0}}, []string{"a", "b"}},
		{"all leave", nil, map[string]in{"a": {map[ask]int64{}, 1}, "b": {map[ask]int64{}, 1}}, []string{"a", "b"}},
	}
	var r register
	for i, step := range steps {
		before := map[string]int64{}
		for pool, there := range r.pools {
			before[pool] = there.changes
		}
		r.count(step.pods)
		got, changed := map[string]in{}, []string(nil)
		for _, pool := range slices.Sorted(maps.Keys(r.pools)) {
			there := r.pools[pool]
			got[pool] = in{there.pods, there.rate}
			if there.changes != before[pool] {
				changed = append(changed, pool)
			}
		}
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(ask{}, in{})); diff != "" {
			t.Errorf("step %d, %s: pods (-want +got):\n%s", i, step.why, diff)
		}
		if diff := cmp.Diff(step.changed, changed); diff != "" {
			t.Errorf("step %d, %s: pools that changed (-want +got):\n%s", i, step.why, diff)
		}
	}
	for range 20 {
		r.count(nil)
	}
	if len(r.pools) > 0 || len(r.residents) > 0 {
		t.Errorf("the register still has pools %v and pods %v, long after all have left", r.pools, r.residents)
	}
}

// BenchmarkCensus is one among 20,000 pods of which a few are new, as there are a few in 256 attempts.
func BenchmarkCensus(b *testing.B) {
	var r register
	var pods []any
	for i := range 20_000 {
		pods = append(pods, share(fmt.Sprint("pod-", i), "", 100+i%10))
	}
	r.count(pods[:len(pods)-1])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.count(pods[i%2 : len(pods)-1+i%2])
	}
}
