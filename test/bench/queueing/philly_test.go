package queueing

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

func TestPhillyIsWhole(t *testing.T) {
	jobs, err := Philly()
	if err != nil {
		t.Fatal(err)
	}
	var sum GPUHours
	large, vcs := 0, map[string]bool{}
	for _, job := range jobs {
		sum += gpuTime(job.GPUs, job.Runtime)
		vcs[job.VC] = true
		if job.GPUs > trace.GPUsPerNode {
			large++
		}
	}
	got := []int{len(jobs), int(sum), large, len(vcs)}
	if diff := cmp.Diff([]int{82247, 978078, 289, 15}, got); diff != "" {
		t.Errorf("jobs, GPU-hours, jobs over 8 GPUs, virtual clusters (-want +got):\n%s", diff)
	}
}
