package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestAnEditThatWouldHaveAJobWaitForItself(t *testing.T) {
	job := func(name string, waitsFor ...string) inventory.Job {
		return inventory.Job{Name: name, WaitsFor: waitsFor}
	}
	tests := map[string]struct {
		dependsOn []string
		there     []inventory.Job
		want      []string
	}{
		"through another":   {[]string{"b"}, []inventory.Job{job("a", "x"), job("b", "a")}, []string{"a", "b", "a"}},
		"it has started":    {[]string{"b"}, []inventory.Job{job("a"), job("b", "a")}, nil},
		"the other started": {[]string{"b"}, []inventory.Job{job("a", "x"), job("b")}, nil},
		"not there":         {[]string{"c"}, []inventory.Job{job("a", "x")}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, dependencyCycle("a", tc.dependsOn, tc.there)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
