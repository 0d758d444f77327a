package cli

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestWhoStartsAfterAServiceIsWarned has a job that is there and ends, one that is there and does not, and one that is not.
func TestWhoStartsAfterAServiceIsWarned(t *testing.T) {
	job := func(name, kind, object string) inventory.Job {
		return inventory.Job{Name: name, Kind: kind, Object: inventory.ObjectRef{Kind: object}}
	}
	there := []inventory.Job{job("prep", "training", "Job"), job("chat", "inference", "Deployment")}
	tests := map[string]string{
		"prep": "",
		"chat": "eval starts after chat, which is of kind inference and goes on until it is deleted",
		"none": "eval starts after none, which is not there yet",
	}
	for name, want := range tests {
		streams, _, out := TestIOStreams("")
		m := &manifests{factory: NewFactory(streams)}
		waits := creation{submission: submission{Document: workload.Document{
			Kind: workload.KindTraining, Name: "eval", Job: &workload.Job{DependsOn: []string{name}}}}}
		if err := m.checkNamespaceDependencies(nil, []creation{waits}, there); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("after %s it says %q, want %q", name, got, want)
		}
	}
}
