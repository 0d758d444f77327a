package gpuscore

import (
	"fmt"
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
	steps := []struct {
		why      string
		pods     []any
		want     map[ask]int64
		turnover map[string]float64
	}{
		{"those that were there before are not new", []any{one, two}, map[ask]int64{ones: 1, twos: 1}, map[string]float64{}},
		{"nothing changed", []any{two, one}, map[ask]int64{ones: 1, twos: 1}, map[string]float64{}},
		{"two come, one leaves", []any{two, pod("three", "a", "2"), pod("four", "a", "2")}, map[ask]int64{twos: 3}, map[string]float64{"a": 0.5}},
		{"pods without cards are nobody", []any{two, pod("three", "a", "2"), pod("four", "a", "2"), pod("cpu", "a", "")},
			map[ask]int64{twos: 3}, map[string]float64{"a": 0.5}},
		{"nor are they when they leave", []any{two, pod("three", "a", "2"), pod("four", "a", "2")}, map[ask]int64{twos: 3}, map[string]float64{"a": 0.5}},
		{"one leaves for another of its name", []any{two, pod("three", "a", "2"), pod("five", "b", "1")},
			map[ask]int64{twos: 2, {pool: "b", whole: 1}: 1}, map[string]float64{"a": 1, "b": 0}},
		{"all leave", nil, map[ask]int64{}, map[string]float64{"a": 1, "b": 1}},
	}
	var r register
	for i, step := range steps {
		got := r.count(step.pods)
		if diff := cmp.Diff(step.want, got.pods, cmp.AllowUnexported(ask{})); diff != "" {
			t.Errorf("step %d, %s: pods (-want +got):\n%s", i, step.why, diff)
		}
		if diff := cmp.Diff(step.turnover, got.turnover); diff != "" {
			t.Errorf("step %d, %s: turnover (-want +got):\n%s", i, step.why, diff)
		}
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
