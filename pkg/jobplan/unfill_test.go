package jobplan

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/workload"
)

func TestUnfilled(t *testing.T) {
	tests := map[string]struct{ resources, want, stay, err string }{
		"all of it":               {"preset: a100-small, pool: train, gpu: 1, gpu-type: A100-80G, cpu: 8, memory: 64Gi", "{preset: a100-small}", "", ""},
		"a value of its own":      {"preset: a100-small, gpu: 4, pool: train, memory: 1Ti", "{preset: a100-small, gpu: 4, memory: 1Ti}", "gpu memory", ""},
		"in another spelling":     {"preset: a100-small, gpuType: A100-80G, gpu: 2, cpu: 3", "{preset: a100-small, gpu: 2, cpu: 3}", "gpu", ""},
		"what no preset fills":    {"preset: a100-small, gpu: 1, time-limit: 1h", "{preset: a100-small, time-limit: 1h}", "", ""},
		"a list is another value": {"preset: a100-small, gpu-type: [A100-80G]", "{preset: a100-small, gpu-type: [A100-80G]}", "gpu-type", ""},
		"no preset":               {"gpu: 1", "{gpu: 1}", "gpu", ""},
		"one that went":           {"preset: gone, gpu: 1", "", "", `"gone" is no longer there`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			const head = "kind: training\njob: {name: a}\nenvironment: {image: busybox}\nresources: "
			docs, diagnostics := workload.Parse("a.yaml", []byte(head+"{"+tc.resources+"}\n"))
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			source, err := Unfilled(docs[0], docs[0].Source, presets)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, resources, _ := strings.Cut(source, "resources: "); strings.TrimSpace(resources) != tc.want {
				t.Errorf("resources are %s, want %s", resources, tc.want)
			}
			stay, err := Overrides{Set: []string{"resources.cpu=1"}}.OwnFields(source)
			if got := strings.Join(stay, " "); err != nil || got != tc.stay {
				t.Errorf("%q stay, want %q: %v", got, tc.stay, err)
			}
		})
	}
}

// TestUnfilledLeavesWhatTheUserHasWritten: a job gets another preset together with values of its own.
func TestUnfilledLeavesWhatTheUserHasWritten(t *testing.T) {
	const head = "kind: training\njob: {name: a}\nenvironment: {image: busybox}\nresources: "
	docs, diagnostics := workload.Parse("a.yaml", []byte(head+"{preset: a100-small, pool: train, gpu: 4, cpu: 8, memory: 64Gi}\n"))
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	tests := map[string]struct{ written, want string }{
		"nothing but the preset":        {"preset: slice, pool: train, gpu: 4, cpu: 8, memory: 64Gi", "{preset: slice, gpu: 4}"},
		"a value besides":               {"preset: slice, pool: train, gpu: 4, cpu: 9, memory: 64Gi", "{preset: slice, gpu: 4, cpu: 9}"},
		"a value as the old one has it": {"preset: slice, pool: train, gpu: 1, cpu: 8, memory: 64Gi", "{preset: slice, gpu: 1}"},
		"a field that was not there":    {"preset: slice, pool: train, gpu-type: A100-80G, memory: 64Gi", "{preset: slice, gpu-type: A100-80G}"},
		"a field less":                  {"preset: slice, pool: train, cpu: 8", "{preset: slice}"},
		"no resources":                  {"", "{}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			source, err := Unfilled(docs[0], head+"{"+tc.written+"}\n", presets)
			if err != nil {
				t.Fatal(err)
			}
			if _, resources, _ := strings.Cut(source, "resources: "); strings.TrimSpace(resources) != tc.want {
				t.Errorf("resources are %s, want %s", resources, tc.want)
			}
		})
	}
}
