package gpuscore

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// TestAKindEndsThoseOfThePast: what is remembered of a kind is dropped once no pod can be of that kind any more.
func TestAKindEndsThoseOfThePast(t *testing.T) {
	now := podClass{
		candidates: &shortlist.Candidates{Key: "pool a"}, policy: &policy{generation: 1}, wants: [32]byte{1},
		ask: fragmentation.PodRequest{Pool: "a", Whole: 1}, generation: 5,
	}
	tests := map[string]struct {
		change func(*podClass)
		want   bool
	}{
		"pods that want something else come beside these":  {change: func(k *podClass) { k.wants = [32]byte{2} }},
		"pods of another pool come beside these":           {change: func(k *podClass) { k.candidates = &shortlist.Candidates{Key: "pool b"} }},
		"pods that need no forecast come beside these":     {change: func(k *podClass) { k.ask, k.generation = fragmentation.PodRequest{}, 0 }},
		"the nodes of a pool were others":                  {change: func(k *podClass) { k.candidates = &shortlist.Candidates{Key: "pool a"} }, want: true},
		"another policy was in effect":                     {change: func(k *podClass) { k.policy = &policy{} }, want: true},
		"other pods were expected when the kind was asked": {change: func(k *podClass) { k.generation = 4 }, want: true},
		"and in another pool, where that may hold still":   {change: func(k *podClass) { k.ask.Pool, k.generation = "b", 4 }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			other := now
			tc.change(&other)
			if got := now.Supersedes(other); got != tc.want {
				t.Errorf("the kind of now ends it: %v, want %v", got, tc.want)
			}
		})
	}
}
