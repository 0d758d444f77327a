package gpuscore

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// TestAKindEndsThoseOfThePast: what is remembered of a kind is dropped once no pod can be of that kind any more.
func TestAKindEndsThoseOfThePast(t *testing.T) {
	now := kind{
		candidates: &shortlist.Candidates{Key: "pool a"}, policy: &policy{generation: 1}, wants: [32]byte{1},
		ask: fragmentation.Ask{Pool: "a", Whole: 1}, generation: 5,
	}
	tests := map[string]struct {
		change func(*kind)
		want   bool
	}{
		"pods that want something else come beside these":  {change: func(k *kind) { k.wants = [32]byte{2} }},
		"pods of another pool come beside these":           {change: func(k *kind) { k.candidates = &shortlist.Candidates{Key: "pool b"} }},
		"pods that need no forecast come beside these":     {change: func(k *kind) { k.ask, k.generation = fragmentation.Ask{}, 0 }},
		"the nodes of a pool were others":                  {change: func(k *kind) { k.candidates = &shortlist.Candidates{Key: "pool a"} }, want: true},
		"another policy was in effect":                     {change: func(k *kind) { k.policy = &policy{} }, want: true},
		"other pods were expected when the kind was asked": {change: func(k *kind) { k.generation = 4 }, want: true},
		"and in another pool, where that may hold still":   {change: func(k *kind) { k.ask.Pool, k.generation = "b", 4 }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			other := now
			tc.change(&other)
			if got := now.Ends(other); got != tc.want {
				t.Errorf("the kind of now ends it: %v, want %v", got, tc.want)
			}
		})
	}
}
