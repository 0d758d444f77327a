package gpuscore

import (
	"math"
	"testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
)

func TestByShare(t *testing.T) {
	classic := band{low: 6_000, high: 8_000}
	tests := map[string]struct {
		strategy configv1.Strategy
		target   band
		share    int64
		want     int64
	}{
		"Pack likes a full node":                         {strategy: configv1.Pack, share: 10_000, want: 100},
		"Pack likes a node by its share":                 {strategy: configv1.Pack, share: 3_750, want: 37},
		"Spread likes an empty node":                     {strategy: configv1.Spread, share: 0, want: 100},
		"Spread is Pack turned round":                    {strategy: configv1.Spread, share: 7_500, want: 25},
		"TargetBand rises below the band":                {strategy: configv1.TargetBandStrategy, target: classic, share: 3_000, want: 50},
		"TargetBand is full where the band begins":       {strategy: configv1.TargetBandStrategy, target: classic, share: 6_000, want: 100},
		"TargetBand is full where the band ends":         {strategy: configv1.TargetBandStrategy, target: classic, share: 8_000, want: 100},
		"TargetBand falls above the band":                {strategy: configv1.TargetBandStrategy, target: classic, share: 9_000, want: 50},
		"TargetBand gives a full node nothing":           {strategy: configv1.TargetBandStrategy, target: classic, share: 10_000, want: 0},
		"a band from 0 has nothing below it":             {strategy: configv1.TargetBandStrategy, target: band{0, 5_000}, share: 0, want: 100},
		"a band to 100 has nothing above it":             {strategy: configv1.TargetBandStrategy, target: band{5_000, 10_000}, share: 10_000, want: 100},
		"a band of one point is full at that point":      {strategy: configv1.TargetBandStrategy, target: band{5_000, 5_000}, share: 5_000, want: 100},
		"a band of one point falls off on its far side":  {strategy: configv1.TargetBandStrategy, target: band{5_000, 5_000}, share: 7_500, want: 50},
		"a band of one point falls off on its near side": {strategy: configv1.TargetBandStrategy, target: band{5_000, 5_000}, share: 2_500, want: 50},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := byShare(tc.strategy, tc.target, tc.share); got != tc.want {
				t.Errorf("byShare(%s, %+v, %d) = %d, want %d", tc.strategy, tc.target, tc.share, got, tc.want)
			}
		})
	}
}

func TestSpreadReplicas(t *testing.T) {
	tests := map[string]struct {
		bestDomain, bestNode bool
		share, want          int64
	}{
		"the best there is":                               {true, true, 10_000, 100},
		"an empty node in the best place":                 {true, true, 0, 75},
		"a better domain outweighs a full node elsewhere": {true, false, 0, 50},
		"all but the domain":                              {false, true, 9_999, 49},
		"a better node outweighs a full one":              {false, true, 0, 25},
		"a full node beside another replica":              {false, false, 9_999, 24},
		"an empty node beside another replica":            {false, false, 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := spreadReplicas(tc.bestDomain, tc.bestNode, tc.share); got != tc.want {
				t.Errorf("spreadReplicas(%t, %t, %d) = %d, want %d", tc.bestDomain, tc.bestNode, tc.share, got, tc.want)
			}
		})
	}
}

func TestFillHoles(t *testing.T) {
	tests := map[string]struct{ free, asked, share, want int64 }{
		"the last free GPU of a node":                      {1, 1, 10_000, 100},
		"the odd one of three, on a node of eight":         {3, 1, 7_500, 95},
		"the odd one of seven, though the node is empty":   {7, 1, 2_500, 85},
		"one of two spoils a pair":                         {2, 1, 8_750, 77},
		"one of six spoils a pair":                         {6, 1, 3_750, 67},
		"one of four spoils a four":                        {4, 1, 6_250, 52},
		"one of eight spoils an eight":                     {8, 1, 1_250, 22},
		"one of sixteen spoils a sixteen":                  {16, 1, 625, 1},
		"one of thirty-two is no worse than of sixteen":    {32, 1, 312, 0},
		"two of two is what a pair is for":                 {2, 2, 10_000, 100},
		"two of six leave a four":                          {6, 2, 5_000, 90},
		"two of four spoil a four":                         {4, 2, 7_500, 55},
		"all of eight":                                     {8, 8, 10_000, 100},
		"three of four spoil the four":                     {4, 3, 8_750, 57},
		"more asked than free, after a card broke":         {2, 4, 10_000, 100},
		"counts that contradict each other spoil nothing":  {-3, 1, 10_000, 100},
		"numbers at the limit do not overflow":             {math.MaxInt64, 1, 0, 80},
		"numbers at the limit that spoil the largest sets": {math.MaxInt64, math.MaxInt64 - 1, 0, 80},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := fillHoles(tc.free, tc.asked, tc.share); got != tc.want {
				t.Errorf("fillHoles(%d, %d, %d) = %d, want %d", tc.free, tc.asked, tc.share, got, tc.want)
			}
		})
	}
}
