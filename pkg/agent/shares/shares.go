// Package shares finds pods that use more memory of a shared GPU than their share. It is pure.
package shares

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
)

// Use is what a process has of a GPU.
type Use struct {
	GPUUUID string
	PID     int
	// Pod is the one that the process belongs to.
	Pod     types.UID
	UsedMiB int64
}

// Overrun is a pod that uses more of a GPU than it may.
type Overrun struct {
	Pod             types.UID
	Namespace, Name string
	GPUUUID         string
	// UsedMiB is what all its processes have, ShareMiB what all its containers may.
	UsedMiB, ShareMiB int64
	// PIDs are its processes on the GPU, the one with the most memory first.
	PIDs []int
}

type key struct {
	pod types.UID
	gpu string
}

// FindOverruns compares shares with use. It ignores GPUs that a pod has whole, and processes on GPUs of which their pod has no share: those GPUs belong
// to other pods, or are whole ones.
func FindOverruns(records []binding.Record, uses []Use) []Overrun {
	found := map[key]*Overrun{}
	for i := range records {
		record := &records[i]
		for _, device := range record.Devices {
			if device.MemoryMiB == 0 {
				continue
			}
			k := key{record.Pod, device.UUID}
			if found[k] == nil {
				found[k] = &Overrun{Pod: record.Pod, Namespace: record.Namespace, Name: record.PodName, GPUUUID: device.UUID}
			}
			found[k].ShareMiB += device.MemoryMiB
		}
	}
	uses = slices.SortedFunc(slices.Values(uses), func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.UsedMiB, a.UsedMiB), cmp.Compare(a.PID, b.PID))
	})
	for _, use := range uses {
		if o := found[key{use.Pod, use.GPUUUID}]; o != nil {
			o.UsedMiB += use.UsedMiB
			o.PIDs = append(o.PIDs, use.PID)
		}
	}
	var over []Overrun
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.gpu, b.gpu))
	}) {
		if o := found[k]; o.UsedMiB > o.ShareMiB {
			over = append(over, *o)
		}
	}
	return over
}
