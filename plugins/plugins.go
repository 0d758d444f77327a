// Package plugins lists every scheduler plugin that gpu-scheduler can run.
package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"

	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
)

// Registry returns our plugins, and those of scheduler-plugins that GPU clusters use. None runs until a
// profile enables it.
func Registry() runtime.Registry {
	return runtime.Registry{
		gpufilter.Name: gpufilter.New,
		gpuscore.Name:  gpuscore.New,

		capacityscheduling.Name:   capacityscheduling.New,
		coscheduling.Name:         coscheduling.New,
		noderesourcetopology.Name: noderesourcetopology.New,
	}
}
