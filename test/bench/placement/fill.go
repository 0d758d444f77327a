package placement

import "g8s.host/gpu-scheduler/pkg/simulate/trace"

// Fill lets pods arrive at an empty cluster until none is left. A pod that fits nowhere is lost.
func Fill(arrivals trace.Arrivals, policy Policy) trace.Series {
	cluster := NewCluster(arrivals.Nodes, policy)
	collected := trace.Collector{Capacity: trace.TotalCapacity(arrivals.Nodes)}
	arrived, allocated := int64(0), int64(0)
	for i := range arrivals.Pods {
		pod := &arrivals.Pods[i]
		arrived += pod.TotalMilliGPU()
		if at, _ := cluster.Place(pod); at >= 0 {
			allocated += pod.TotalMilliGPU()
		}
		collected.Add(arrived, allocated)
	}
	return collected.Means()
}
