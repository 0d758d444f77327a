package bounded

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNames(t *testing.T) {
	sizes := map[string]int64{"small": 1, "large": 9, "b": 3, "a": 3}
	tests := map[string]struct {
		most int
		want map[string]string
	}{
		"all have room":                  {4, map[string]string{"small": "small", "large": "large", "b": "b", "a": "a"}},
		"the largest, of equals by name": {2, map[string]string{"small": Others, "large": "large", "b": Others, "a": "a"}},
		"none has room":                  {0, map[string]string{"small": Others, "large": Others, "b": Others, "a": Others}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Names(sizes, tc.most)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
