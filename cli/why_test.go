package cli

import (
	"bytes"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	explainclient "g8s.host/gpu-scheduler/pkg/explain/client"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

func TestWhyIsWrittenForPeople(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]diagnosis.Report{
		"why-pending": {
			Job: "sft", Namespace: "team", Status: inventory.StatusPending, Cause: reason.Busy,
			Findings: []diagnosis.Finding{
				{Cause: reason.Busy, Text: "6 of 24 GPUs are free on 3 nodes; a pod asks for 8", Nodes: 3, Examples: []string{"n1", "n2", "n3"},
					Advice: []string{"wait: node n1 is 2 GPUs short; job llama of namespace team holds 2 there", "or ask for at most 6 GPUs per pod, which node n1 has now"}},
				{Cause: reason.Cordoned, Text: "9 nodes cordoned: the administrators keep new pods away", Nodes: 9, Examples: []string{"n4", "n5", "n6", "n7", "n8"},
					Advice: []string{"ask them when the nodes come back, or use another pool"}},
			},
			NearMisses: []diagnosis.NearMiss{{
				NearMiss: explain.NearMiss{Node: "n1", Short: 2, Detail: "6 of 8 free, 2 short"},
				Holders:  []diagnosis.Holder{{Namespace: "team", Job: "llama", GPUs: 2}},
			}},
			Records: []explain.Record{{Name: "sft-x", Attempts: 12, Explained: 11, Last: explain.Attempt{
				Time: now.Add(-3 * time.Second), Result: explain.Unschedulable, Nodes: 64, Reasons: []explain.Reason{
					{Text: "node(s) are in another GPU pool", Nodes: 52}, {Text: "node(s) have too few free GPUs", Plugin: "GPUFilter", Nodes: 3},
				}}}},
			Verdict: "0/64 nodes are available: 3 node(s) have too few free GPUs.",
			Unread:  []snapshot.Part{snapshot.PartLease},
		},
		"why-busy-scheduler": {
			Job: "sft", Namespace: "team", Status: inventory.StatusPending, Cause: reason.Busy,
			Records: []explain.Record{{Name: "sft-x", Attempts: 2, Last: explain.Attempt{
				Time: now.Add(-3 * time.Second), Result: explain.Unschedulable, Nodes: 64,
			}}},
		},
		"why-running": {
			Job: "sft", Namespace: "team", Status: inventory.StatusRunning, Cause: reason.Running,
			Placements: []diagnosis.Placement{{
				Pod: "sft-x", Node: "n1", Pool: "training", Type: "A100-80G", Connection: "NVLink, 100 % of the node's best",
				Devices: []gpu.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 3, MemoryMiB: 2048}},
			}},
			Segments: []inventory.Segment{{First: 0, Last: 1, Domains: []string{"r1"}}, {First: 2, Last: 3}},
			Records: []explain.Record{{Name: "sft-x", Attempts: 1, Explained: 1, Last: explain.Attempt{
				Time: now.Add(-time.Hour), Result: explain.Placed, Node: "n1", Feasible: 7, DevicesReason: "the set with the best interconnect",
				Candidates: []explain.Candidate{
					{Node: "n1", Score: 82, Parts: []explain.Part{{Name: "utilization", Value: 75, Weight: 40}, {Name: "topology", Value: 100, Weight: 30}}},
					{Node: "n2", Score: 61, Parts: []explain.Part{{Name: "utilization", Value: 50, Weight: 40}, {Name: "topology", Value: 100, Weight: 30}}},
				}}}},
		},
	}
	for name, report := range tests {
		t.Run(name, func(t *testing.T) {
			out := &bytes.Buffer{}
			if err := explainReport(newDescription(IOStreams{Out: out}), report, now); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name, out.String())
		})
	}
}

func TestSchedulersAreNamedByAnAddressThatIsSafe(t *testing.T) {
	for name, options := range map[string]explainclient.Options{
		"no encryption": {Address: "http://localhost:10260"}, "no address": {Address: "localhost"},
		"a contradiction": {Address: "https://localhost", CA: "ca.crt", Insecure: true},
	} {
		if err := (&schedulerOptions{options}).validateAddress(); exitCode(err) != exitUsage {
			t.Errorf("%s: error %v, want a usage error", name, err)
		}
	}
}
