package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

func TestMinRuntimeIsCutByThePool(t *testing.T) {
	tests := map[string]struct {
		pool PoolDefaults
		says string
		want time.Duration
	}{
		"nobody says anything":        {want: 0},
		"the pod says it":             {pool: PoolDefaults{MaxMinRuntime: "24h"}, says: "90m", want: 90 * time.Minute},
		"the pool says it":            {pool: PoolDefaults{MinRuntime: "1h"}, want: time.Hour},
		"the pod says less":           {pool: PoolDefaults{MinRuntime: "1h"}, says: "0s", want: 0},
		"a pool that says nothing":    {says: "1h", want: 0},
		"more than the pool allows":   {pool: PoolDefaults{MaxMinRuntime: "2h"}, says: "100h", want: 2 * time.Hour},
		"a pool that allows more":     {pool: PoolDefaults{MaxMinRuntime: "100h"}, says: "99h", want: 99 * time.Hour},
		"a pool that protects none":   {pool: PoolDefaults{MinRuntime: "1h", MaxMinRuntime: "0s"}, says: "1h", want: 0},
		"a pool beyond all bounds":    {pool: PoolDefaults{MaxMinRuntime: "9999h"}, says: "9999h", want: MaxMinRuntime},
		"more than the default":       {pool: PoolDefaults{MinRuntime: "48h"}, says: "50h", want: 48 * time.Hour},
		"a default over the most":     {pool: PoolDefaults{MinRuntime: "3h", MaxMinRuntime: "2h"}, want: 2 * time.Hour},
		"no duration":                 {pool: PoolDefaults{MinRuntime: "1h"}, says: "for ever", want: time.Hour},
		"a negative one":              {says: "-1h", want: 0},
		"one that does not end":       {says: strings.Repeat("1h", 1<<16), want: 0},
		"a pool that nobody can read": {pool: PoolDefaults{MinRuntime: "soon", MaxMinRuntime: "late"}, says: "30h", want: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if tc.says != "" {
				annotations[AnnotationMinRuntime] = tc.says
			}
			if got := tc.pool.MinRuntimes().RuntimeFor(annotations); got != tc.want {
				t.Errorf("it is protected for %s, want %s", got, tc.want)
			}
		})
	}
}
