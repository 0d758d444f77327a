package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// poolAccessPolicy is the admission policy that rejects pods that may not use a pool.
const poolAccessPolicy = "g8s-pool-access"

// PoolDenial explains why the GPUPools do not admit pods of a namespace with a priority class to a pool. It is empty if the pool admits them or restricts
// nothing.
func PoolDenial(pools []names.GPUPool, pool, namespace, class string) phrase.Text {
	at := slices.IndexFunc(pools, func(p names.GPUPool) bool { return p.Name == pool })
	if at < 0 {
		return nil
	}
	access := &pools[at].Spec.Access
	if len(access.Namespaces) > 0 && !slices.Contains(access.Namespaces, namespace) {
		return phrase.Textf("pool %s is not for namespace %s", pool, namespace)
	}
	var takes []string
	for _, priority := range access.Priorities {
		if priorityClassPrefix+string(priority) == class {
			return nil
		}
		takes = append(takes, string(priority))
	}
	if len(takes) == 0 {
		return nil
	}
	has := cmp.Or(strings.TrimPrefix(class, priorityClassPrefix), "none")
	return phrase.Textf("pool %s takes priority %s only, and the job has %s", pool, joinList(takes), has)
}

// priorityClassPrefix is the prefix of the names of our priority classes; gpuctl uses the rest of the name.
const priorityClassPrefix = "g8s-"

// jobPoolDenial explains why the pool does not admit the job's pods.
func jobPoolDenial(f *Facts) phrase.Text {
	pod := templatePod(f)
	if pod == nil {
		return nil
	}
	return PoolDenial(f.Cluster.GPUPools, gpu.PodPool(pod), f.Job.Namespace, pod.Spec.PriorityClassName)
}

// explainPoolDenied explains that the job may not use its pool.
func explainPoolDenied(f *Facts, says phrase.Text) Finding {
	out := Finding{Cause: reason.RefusedByPolicy, Message: says}
	s := &search{facts: f}
	out.Steps = append(out.Steps, s.moveToPoolStep("", phrase.Textf("use a pool that is for it: gpuctl get pools lists them.")))
	if pod := templatePod(f); pod != nil {
		pool := gpu.PodPool(pod)
		at := slices.IndexFunc(f.Cluster.GPUPools, func(p names.GPUPool) bool { return p.Name == pool })
		if at >= 0 {
			if step, ok := otherPriority(f, &f.Cluster.GPUPools[at].Spec.Access); ok {
				out.Steps = append(out.Steps, step)
			}
		}
		out.Steps = append(out.Steps, Step{Action: reason.ChangePolicy, Kind: "GPUPool", Name: pool,
			Message: phrase.Textf("ask the administrators to let it into pool %[1]s: spec.access of GPUPool %[1]s", pool)})
	}
	return out
}

// otherPriority is the step to a priority that the pool admits, if the namespace may use it.
func otherPriority(f *Facts, access *names.PoolAccess) (Step, bool) {
	if len(access.Priorities) == 0 || len(access.Namespaces) > 0 && !slices.Contains(access.Namespaces, f.Job.Namespace) {
		return Step{}, false
	}
	pod := templatePod(f)
	at := slices.IndexFunc(access.Priorities, func(p names.PoolPriority) bool { return f.mayHavePriority(pod, priorityClassPrefix+string(p)) })
	if at < 0 {
		return Step{}, false
	}
	priority := string(access.Priorities[at])
	set := fmt.Sprintf("gpuctl set priority %s %s -n %s", f.Job.Name, priority, f.Job.Namespace)
	return Step{Action: reason.SetPriority, Value: priority, Command: set, Message: phrase.Textf("give it a priority that the pool takes: %s", set)}, true
}

// explainClosedPool explains a job without a pod that its pool does not admit. The API server's own message is an event, which is kept for an hour.
func explainClosedPool(f *Facts) []Finding {
	if slices.ContainsFunc(f.Pods, func(pod corev1.Pod) bool { return isActive(&pod) }) || f.Cluster.Now.Sub(f.Job.Created) < slowController {
		return nil
	}
	if says := jobPoolDenial(f); len(says) > 0 {
		return singleFinding(explainPoolDenied(f, says.Addf(", so that the API server refuses its pods")))
	}
	return nil
}
