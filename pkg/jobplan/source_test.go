package jobplan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetField(t *testing.T) {
	tests := map[string]struct {
		source, path, want string
	}{
		"the value changes, comments and order stay": {
			"# mine\nkind: training\nresources:\n  pool: a # where\n  gpu: 1\n", "resources.pool",
			"# mine\nkind: training\nresources:\n  pool: b # where\n  gpu: 1\n",
		},
		"a key that is not there is added": {
			"kind: training\njob:\n  name: x\n", "job.pool", "kind: training\njob:\n  name: x\n  pool: b\n",
		},
		"a section that is not there is added": {
			"kind: training\n", "resources.pool", "kind: training\nresources:\n  pool: b\n",
		},
		"an empty section is filled": {
			"kind: training\nresources:\n", "resources.pool", "kind: training\nresources:\n  pool: b\n",
		},
		"a flow mapping stays one": {
			"resources: {pool: a, gpu: 1}\n", "resources.pool", "resources: {pool: b, gpu: 1}\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := SetField(tc.source, tc.path, "b")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, source := range []string{"", "- a\n", "a: [\n"} {
		if _, err := SetField(source, "a.b", "c"); err == nil {
			t.Errorf("%q is no mapping, and was accepted", source)
		}
	}
}
