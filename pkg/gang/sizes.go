package gang

import (
	"g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// readPodGroup reads a PodGroup of Kubernetes. Its policy basic makes no gang; with a topology constraint each pod is placed beside the others.
func readPodGroup(object map[string]any) Sizes {
	out := Sizes{Whole: count(object, 0, "spec", "schedulingPolicy", "gang", "minCount")}
	for _, constraint := range list(object, "spec", "schedulingConstraints", "topology") {
		if key := text(constraint, "key"); key != "" { // at most one, and always required
			out.Topology, out.Whole = v1alpha1.TopologyRequired+"="+key, max(1, out.Whole)
		}
	}
	return out
}

// readLeaderWorkerSet reads the requirements of each replica. Workers that are created after their leader runs cannot be waited for.
func readLeaderWorkerSet(object map[string]any) Sizes {
	const exclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	template := field(object, "spec", "leaderWorkerTemplate")
	if text(object, "spec", "startupPolicy") == "LeaderReady" || text(object, "metadata", "annotations", exclusive) != "" ||
		!asksGPUs(field(template, "workerTemplate")) && !asksGPUs(field(template, "leaderTemplate")) {
		return Sizes{}
	}
	return several(Sizes{Each: count(template, 1, "size")})
}

// readJobSet reads all pods of a JobSet as one group, or each job as a group if its jobs start one after another. With an exclusive topology
// pods are created after the first pod of their job has its place, so they cannot be waited for.
func readJobSet(object map[string]any) Sizes {
	const exclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	if text(object, "metadata", "annotations", exclusive) != "" {
		return Sizes{}
	}
	inOrder, asks := text(object, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder", false
	out := Sizes{Parts: map[string]int{}}
	for _, replicated := range list(object, "spec", "replicatedJobs") {
		if text(replicated, "template", "metadata", "annotations", exclusive) != "" {
			return Sizes{}
		}
		name := text(replicated, "name")
		pods := (count(replicated, 1, "replicas") - succeededJobs(object, name)) * podsOfJob(field(replicated, "template"))
		inOrder = inOrder || len(list(replicated, "dependsOn")) > 0
		out.Whole += max(pods, 0)
		if asksGPUs(field(replicated, "template", "spec", "template")) {
			asks = true
			out.Parts[name] = max(pods, 0)
		}
	}
	switch {
	case !asks:
		return Sizes{}
	case inOrder:
		out.Whole = 0
	default:
		out.Parts = nil
	}
	return several(out)
}

// succeededJobs returns how many jobs of a replicated job have succeeded: their pods do not come back.
func succeededJobs(object map[string]any, name string) int {
	for _, status := range list(object, "status", "replicatedJobsStatus") {
		if text(status, "name") == name {
			return count(status, 0, "succeeded")
		}
	}
	return 0
}

// podsOfJob returns how many pods of a Job run at a time.
func podsOfJob(job any) int {
	pods := count(job, 1, "spec", "parallelism")
	return min(pods, count(job, pods, "spec", "completions"))
}

// readRayCluster reads the head and the workers that a RayCluster starts with: the minimum of each group if it is autoscaled. The defaults are
// those of KubeRay 1.6.
func readRayCluster(object map[string]any) Sizes {
	spec := field(object, "spec")
	scales, _ := field(spec, "enableInTreeAutoscaling").(bool)
	out, asks := Sizes{Whole: 1}, asksGPUs(field(spec, "headGroupSpec", "template"))
	for _, group := range list(spec, "workerGroupSpecs") {
		if suspended, _ := field(group, "suspend").(bool); suspended {
			continue
		}
		fewest := count(group, 0, "minReplicas")
		if !scales {
			fewest = max(fewest, min(count(group, fewest, "replicas"), count(group, mostPods, "maxReplicas")))
		}
		out.Whole += fewest * max(1, count(group, 1, "numOfHosts"))
		asks = asks || asksGPUs(field(group, "template"))
	}
	if !asks {
		return Sizes{}
	}
	return several(out)
}

// readTrainingJob reads a job of Kubeflow's operators, with the roles of its pods in a field of the given name.
func readTrainingJob(roles string) func(map[string]any) Sizes {
	return func(object map[string]any) Sizes {
		spec := field(object, "spec")
		late := text(spec, "launcherCreationPolicy") == "WaitForWorkersReady"
		all, _ := field(spec, roles).(map[string]any)
		out, asks := Sizes{}, false
		for role, replicas := range all {
			asks = asks || asksGPUs(field(replicas, "template"))
			pods := count(replicas, 1, "replicas")
			switch {
			case role == "Launcher" && late:
				continue // it is created when the workers run
			case role == "Worker":
				pods = min(pods, count(spec, pods, "elasticPolicy", "minReplicas"))
			}
			out.Whole += max(0, pods-count(object, 0, "status", "replicaStatuses", role, "succeeded"))
		}
		if fewest := count(spec, 0, "runPolicy", "schedulingPolicy", "minAvailable"); fewest > 0 {
			out.Whole = min(out.Whole, fewest)
		}
		if !asks {
			return Sizes{}
		}
		return several(out)
	}
}

// readJob reads a Job whose pods have one index each and all run at a time. If each index may fail on its own, the pods are independent.
func readJob(object map[string]any) Sizes {
	spec := field(object, "spec")
	pods := count(spec, 1, "parallelism")
	if text(spec, "completionMode") != "Indexed" || field(spec, "backoffLimitPerIndex") != nil ||
		pods != count(spec, 0, "completions") || !asksGPUs(field(spec, "template")) {
		return Sizes{}
	}
	return several(Sizes{Whole: max(0, pods-count(object, 0, "status", "succeeded"))})
}

// several drops the groups of a single pod, which waits for no other.
func several(s Sizes) Sizes {
	if s.Whole < 2 {
		s.Whole = 0
	}
	if s.Each < 2 {
		s.Each = 0
	}
	for part, pods := range s.Parts {
		if pods < 2 {
			delete(s.Parts, part)
		}
	}
	return s
}
