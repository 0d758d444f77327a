package cli

import (
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

const uuid = "GPU-5f1e4a3c-8d21-4c57-9a10-2f3b6c7d8e9f"

// fallenOff is a card under a pod, with a name and a UUID as long as they come.
func fallenOff() inventory.BrokenGPU {
	return inventory.BrokenGPU{
		Node: "node-with-a-long-name-17", Pod: "qwen2-7b-sft-0-x7k2p", Index: 3, UUID: uuid, Health: "Xid79", Message: "has fallen off the bus (XID 79)",
		Since: now.Add(-4 * time.Minute), Advice: "drain the node and restart it; exchange the card if it happens again",
	}
}

// TestABrokenGPUIsDescribed on a terminal of 100 columns, which no line may be wider than.
func TestABrokenGPUIsDescribed(t *testing.T) {
	streams, out, _ := TestIOStreams("")
	streams.Width = 100
	job := inventory.JobDetail{Job: someJobs()[0], Broken: []inventory.BrokenGPU{fallenOff()}}
	job.Pods = []inventory.Pod{{
		Name: "qwen2-7b-sft-0-x7k2p", Phase: "Running", Ready: true, Node: "node-with-a-long-name-17", Created: now.Add(-time.Hour),
		GPUs: []gpu.Device{{UUID: uuid, Index: 3}, {UUID: strings.ReplaceAll(uuid, "5f", "77"), Index: 4}, {UUID: "index-5", Index: 5}},
	}}
	if err := describeJob(newDescription(streams), job, nil, now); err != nil {
		t.Fatal(err)
	}
	out.WriteString("---\n")
	node := inventory.Node{
		Name: "node-with-a-long-name-17", Ready: true, GPUs: inventory.GPUs{Allocatable: 7, Used: 2, Free: 5, Unhealthy: 1},
		Broken: []inventory.BrokenGPU{fallenOff()},
	}
	if err := describeNode(newDescription(streams), nodeDetail{Node: node}, now); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 101 {
			t.Errorf("a line is %d columns wide: %s", len(line)-1, line)
		}
	}
	compareGolden(t, "describe-broken", out.String())
}

// TestTheGPUsOfALargeJob are not all listed.
func TestTheGPUsOfALargeJob(t *testing.T) {
	streams, out, _ := TestIOStreams("")
	job := inventory.JobDetail{Job: someJobs()[0]}
	job.Pods = []inventory.Pod{{Name: "p", GPUs: make([]gpu.Device, maxListedGPUs)}}
	if err := describeJob(newDescription(streams), job, nil, now); err != nil || strings.Contains(out.String(), "more:") {
		t.Errorf("error %v, some of %d are left out:\n%s", err, maxListedGPUs, out)
	}
	job.Pods = append(job.Pods, job.Pods[0])
	if err := describeJob(newDescription(streams), job, nil, now); err != nil || !strings.Contains(out.String(), "  and 64 more: -o json has all\n") {
		t.Errorf("error %v, not a word of those that are left out:\n%s", err, out)
	}
}
