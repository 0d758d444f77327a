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
		a.Put(job(fmt.Sprint("n", i%100), i, 1))
	}
	ask := &Ask{Namespace: "n7", Pool: "h100", GPUs: 8, Pods: []types.UID{"p"}}
	for b.Loop() {
		if len(a.Over(ask)) > 0 || a.Within(ask, h100) || a.Waiting("h100") {
			b.Fatal("it has 1600 of 1000 and at most 2000")
		}
	}
}

// BenchmarkReclaim is what it costs to find out once who borrows in a quota of which a pod has changed.
func BenchmarkReclaim(b *testing.B) {
	a := NewAccount([]Quota{quota("a", 1000, Unbounded), quota("b", 1000, Unbounded)})
	for i := range 4000 {
		a.Put(job("a", i, 1))
	}
	ask := &Ask{Namespace: "b", Pool: "h100", GPUs: 8}
	for b.Loop() {
		a.Put(job("a", 4000, 1))
		if a.Standing("a-3999", ask) != Yields {
			b.Fatal("the last borrows")
		}
		a.Drop("a-4000")
	}
}
