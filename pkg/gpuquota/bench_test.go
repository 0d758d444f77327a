package gpuquota

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkAsk is what an attempt costs while 160,000 pods hold GPUs: 20,000 nodes of eight.
func BenchmarkAsk(b *testing.B) {
	var quotas []Quota
	for i := range 100 {
		quotas = append(quotas, quota(fmt.Sprint("n", i), 1000, 2000))
	}
	a := NewAccount(quotas)
	for i := range 160_000 {
		a.SetHolding(job(fmt.Sprint("n", i%100), i, 1))
	}
	ask := &Ask{Namespace: "n7", Pool: "h100", GPUs: 8, Pods: []types.UID{"p"}}
	for b.Loop() {
		if len(a.ExceededQuotas(ask)) > 0 || a.IsWithinMin(ask, h100) || a.HasNominees("h100") {
			b.Fatal("it has 1600 of 1000 and at most 2000")
		}
	}
}

// BenchmarkReclaim is what it costs to find out once who borrows in a quota of which a pod has changed.
func BenchmarkReclaim(b *testing.B) {
	for name, tc := range map[string]struct {
		least int64
		want  Standing
	}{"some borrow": {1000, Yields}, "nobody does": {8000, Protected}, "all do": {0, Yields}} {
		b.Run(name, func(b *testing.B) {
			a := NewAccount([]Quota{quota("a", tc.least, Unbounded), quota("b", 1000, Unbounded)})
			for i := range 4000 {
				a.SetHolding(job("a", i, 1))
			}
			ask := &Ask{Namespace: "b", Pool: "h100", GPUs: 8}
			for b.Loop() {
				a.SetHolding(job("a", 4000, 1))
				if got := a.StandingOf("a-3999", ask); got != tc.want {
					b.Fatalf("the last stands as %v, want %v", got, tc.want)
				}
				a.RemovePod("a-4000")
			}
		})
	}
}
