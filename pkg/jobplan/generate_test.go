package jobplan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/workload"
)

func TestNamed(t *testing.T) {
	tests := map[string]struct{ source, want string }{
		"in a section, with a comment": {
			source: "kind: training\njob:\n  generateName: sft- # each its own\n  ttl: 7d\nenvironment: {image: b}\n",
			want:   "kind: training\njob:\n  name: sft-x7k2p # each its own\n  ttl: 7d\nenvironment: {image: b}\n",
		},
		"in braces": {
			source: "kind: training\njob: {generate-name: sft-}\nenvironment: {image: b}\n",
			want:   "kind: training\njob: {name: sft-x7k2p}\nenvironment: {image: b}\n",
		},
		"of an alias": {
			source: "kind: training\njob: {description: &d sft-, generate-name: *d}\nenvironment: {image: b}\n",
			want:   "kind: training\njob: {description: &d sft-, name: sft-x7k2p}\nenvironment: {image: b}\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := workload.Parse("", []byte(tc.source))
			if len(docs) != 1 {
				t.Fatal(diagnostics)
			}
			named, err := WithGeneratedName(docs[0], "x7k2p")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, named.Source); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if named.GeneratesName() || named.Name != "sft-x7k2p" || named.Job.Name != "sft-x7k2p" || docs[0].Job.Name == named.Name {
				t.Errorf("named %q, its job %q, of a job that is %q", named.Name, named.Job.Name, docs[0].Job.Name)
			}
			again, _ := workload.Parse("", []byte(named.Source))
			if len(again) != 1 || again[0].Name != named.Name {
				t.Errorf("what is kept with the job is %v", again)
			}
		})
	}
}
