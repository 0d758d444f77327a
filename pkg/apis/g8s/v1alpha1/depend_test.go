package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// numbered are so many names.
func numbered(count int) []string {
	var out []string
	for i := range count {
		out = append(out, fmt.Sprintf("job-%d", i))
	}
	return out
}

func TestTheNamesOfJobsAreBounded(t *testing.T) {
	longest := strings.Repeat("a", 63)
	tests := map[string]struct {
		list string
		want []string
		ok   bool
	}{
		"none":                    {"", nil, true},
		"one twice":               {"b,a,b", []string{"b", "a"}, true},
		"as many as there may be": {strings.Join(numbered(16), ","), numbered(16), true},
		"one more":                {strings.Join(numbered(17), ","), nil, false},
		"a hundred thousand":      {strings.Repeat("a,", 130_000) + "a", nil, false},
		"the longest name":        {longest, []string{longest}, true},
		"a longer one":            {longest + "a", nil, false},
		"an empty one":            {"a,,b", nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := JobNames(tc.list); !slices.Equal(got, tc.want) || ok != tc.ok {
				t.Errorf("got %q, %t; want %q, %t", got, ok, tc.want, tc.ok)
			}
		})
	}
}
