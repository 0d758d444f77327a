package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

// TestCheckpointGraceIsCutByThePool: an administrator's word is the last, and without one nobody gets more than is usual.
func TestCheckpointGraceIsCutByThePool(t *testing.T) {
	tests := map[string]struct {
		pool PoolDefaults
		says string
		want time.Duration
	}{
		"nobody says anything":          {want: 0},
		"the pod says it":               {says: "2m", want: 2 * time.Minute},
		"more than is usual":            {says: "50m", want: UsualCheckpointGrace},
		"the pool says it":              {pool: PoolDefaults{CheckpointGrace: "1m"}, want: time.Minute},
		"the pool says more than usual": {pool: PoolDefaults{CheckpointGrace: "20m"}, says: "50m", want: 20 * time.Minute},
		"the pod says less":             {pool: PoolDefaults{CheckpointGrace: "1m"}, says: "0s", want: 0},
		"more than the pool allows":     {pool: PoolDefaults{MaxCheckpointGrace: "1m"}, says: "4m", want: time.Minute},
		"a pool that allows more":       {pool: PoolDefaults{MaxCheckpointGrace: "30m"}, says: "20m", want: 20 * time.Minute},
		"a pool that allows nothing":    {pool: PoolDefaults{CheckpointGrace: "1m", MaxCheckpointGrace: "0s"}, says: "4m", want: 0},
		"a pool beyond all bounds":      {pool: PoolDefaults{MaxCheckpointGrace: "9999h"}, says: "9999h", want: MaxCheckpointGrace},
		"a default beyond all bounds":   {pool: PoolDefaults{CheckpointGrace: "9999h"}, want: MaxCheckpointGrace},
		"no duration":                   {pool: PoolDefaults{CheckpointGrace: "1m"}, says: "a while", want: time.Minute},
		"a negative one":                {says: "-1m", want: 0},
		"one that does not end":         {says: strings.Repeat("1m", 1<<16), want: 0},
		"a pool that nobody can read":   {pool: PoolDefaults{CheckpointGrace: "soon", MaxCheckpointGrace: "late"}, says: "4m", want: 4 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if tc.says != "" {
				annotations[AnnotationCheckpointGrace] = tc.says
			}
			if got := tc.pool.CheckpointGraces().GraceFor(annotations); got != tc.want {
				t.Errorf("it has %s, want %s", got, tc.want)
			}
		})
	}
}
