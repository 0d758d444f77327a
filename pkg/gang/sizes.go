package gang

import (
	"g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// readPodGroup reads a PodGroup of Kubernetes. Its policy basic makes no gang; with a topology constraint each pod is placed beside the others.
func readPodGroup(object map[string]any) Sizes {
	out := Sizes{Whole: podCountAt(object, 0, "spec", "schedulingPolicy", "gang", "minCount")}
	for _, constraint := range objectsAt(object, "spec", "schedulingConstraints", "topology") {
		if key := textAt(constraint, "key"); key != "" { // at most one, and always required
			out.Topology, out.Whole = v1alpha1.TopologyRequired+"="+key, max(1, out.Whole)
		}
	}
	return out
}

// readLeaderWorkerSet reads the requirements of each replica. Workers that are created after their leader runs cannot be waited for.
func readLeaderWorkerSet(object map[string]any) Sizes {
	const exclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	template := fieldAt(object, "spec", "leaderWorkerTemplate")
	if textAt(object, "spec", "startupPolicy") == "LeaderReady" || textAt(object, "metadata", "annotations", exclusive) != "" ||
		!asksGPUs(fieldAt(template, "workerTemplate")) && !asksGPUs(fieldAt(template, "leaderTemplate")) {
		return Sizes{}
	}
	return withoutSingles(Sizes{Each: podCountAt(template, 1, "size")})
}

// readJobSet reads all pods of a JobSet as one group, or each job as a group if its jobs start one after another. With an exclusive topology
// pods are created after the first pod of their job has its place, so they cannot be waited for.
func readJobSet(object map[string]any) Sizes {
	const exclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	if textAt(object, "metadata", "annotations", exclusive) != "" {
		return Sizes{}
	}
	inOrder, asks := textAt(object, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder", false
	out := Sizes{Parts: map[string]int{}}
	for _, replicated := range objectsAt(object, "spec", "replicatedJobs") {
		if textAt(replicated, "template", "metadata", "annotations", exclusive) != "" {
			return Sizes{}
		}
		name := textAt(replicated, "name")
		pods := (podCountAt(replicated, 1, "replicas") - succeededJobs(object, name)) * podsOfJob(fieldAt(replicated, "template"))
		inOrder = inOrder || len(objectsAt(replicated, "dependsOn")) > 0
		out.Whole += max(pods, 0)
		if asksGPUs(fieldAt(replicated, "template", "spec", "template")) {
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
	return withoutSingles(out)
}

// succeededJobs returns how many jobs of a replicated job have succeeded: their pods do not come back.
func succeededJobs(object map[string]any, name string) int {
	for _, status := range objectsAt(object, "status", "replicatedJobsStatus") {
		if textAt(status, "name") == name {
			return podCountAt(status, 0, "succeeded")
		}
	}
	return 0
}

// podsOfJob returns how many pods of a Job run at a time.
func podsOfJob(job any) int {
	pods := podCountAt(job, 1, "spec", "parallelism")
	return min(pods, podCountAt(job, pods, "spec", "completions"))
}

// readRayCluster reads the head and the workers that a RayCluster starts with: the minimum of each group if it is autoscaled. The defaults are
// those of KubeRay 1.6.
func readRayCluster(object map[string]any) Sizes {
	spec := fieldAt(object, "spec")
	scales, _ := fieldAt(spec, "enableInTreeAutoscaling").(bool)
	out, asks := Sizes{Whole: 1}, asksGPUs(fieldAt(spec, "headGroupSpec", "template"))
	for _, group := range objectsAt(spec, "workerGroupSpecs") {
		if suspended, _ := fieldAt(group, "suspend").(bool); suspended {
			continue
		}
		fewest := podCountAt(group, 0, "minReplicas")
		if !scales {
			fewest = max(fewest, min(podCountAt(group, fewest, "replicas"), podCountAt(group, maxPods, "maxReplicas")))
		}
		out.Whole += fewest * max(1, podCountAt(group, 1, "numOfHosts"))
		asks = asks || asksGPUs(fieldAt(group, "template"))
	}
	if !asks {
		return Sizes{}
	}
	return withoutSingles(out)
}

// readTrainingJob reads a job of Kubeflow's operators, with the roles of its pods in a field of the given name.
func readTrainingJob(roles string) func(map[string]any) Sizes {
	return func(object map[string]any) Sizes {
		spec := fieldAt(object, "spec")
		late := textAt(spec, "launcherCreationPolicy") == "WaitForWorkersReady"
		all, _ := fieldAt(spec, roles).(map[string]any)
		out, asks := Sizes{}, false
		for role, replicas := range all {
			asks = asks || asksGPUs(fieldAt(replicas, "template"))
			pods := podCountAt(replicas, 1, "replicas")
			switch {
			case role == "Launcher" && late:
				continue // it is created when the workers run
			case role == "Worker":
				pods = min(pods, podCountAt(spec, pods, "elasticPolicy", "minReplicas"))
			}
			out.Whole += max(0, pods-podCountAt(object, 0, "status", "replicaStatuses", role, "succeeded"))
		}
		if fewest := podCountAt(spec, 0, "runPolicy", "schedulingPolicy", "minAvailable"); fewest > 0 {
			out.Whole = min(out.Whole, fewest)
		}
		if !asks {
			return Sizes{}
		}
		return withoutSingles(out)
	}
}

// readJob reads a Job whose pods have one index each and all run at a time. If each index may fail on its own, the pods are independent.
func readJob(object map[string]any) Sizes {
	spec := fieldAt(object, "spec")
	pods := podCountAt(spec, 1, "parallelism")
	if textAt(spec, "completionMode") != "Indexed" || fieldAt(spec, "backoffLimitPerIndex") != nil ||
		pods != podCountAt(spec, 0, "completions") || !asksGPUs(fieldAt(spec, "template")) {
		return Sizes{}
	}
	return withoutSingles(Sizes{Whole: max(0, pods-podCountAt(object, 0, "status", "succeeded"))})
}

// withoutSingles drops the groups of a single pod, which waits for no other.
func withoutSingles(s Sizes) Sizes {
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
