// Package advice computes how many more nodes would start the jobs that wait for a pool. It simulates with the scheduler's own code (package whatif),
// so that gangs, types, topology and free GPUs count as they do for the scheduler.
//
// [SearchNodes] and [AdviceText] are pure. The [Reconciler] gathers the input of the simulation and writes the result.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/amounts"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// maxNodes bounds the new nodes of a simulation.
const maxNodes = 128

// SearchNodes returns numbers of new nodes and how many jobs each starts: the fewest nodes that start as many jobs as bound nodes do, and a third of that
// number if it starts some. It calls started about a dozen times at most. The result is empty if new nodes start no more jobs.
func SearchNodes(bound int, started func(nodes int) (int, error)) ([]g8s.CapacityOption, error) {
	none, err := started(0)
	if err != nil {
		return nil, err
	}
	most, err := started(bound)
	if err != nil || most <= none {
		return nil, err
	}
	few, many := 0, bound // few starts fewer jobs than many
	for few+1 < many {
		middle := (few + many) / 2
		jobs, err := started(middle)
		if err != nil {
			return nil, err
		}
		if jobs < most {
			few = middle
		} else {
			many = middle
		}
	}
	options := []g8s.CapacityOption{{Nodes: int32(many), Jobs: int32(most)}}
	third := (many + 2) / 3
	if third == many {
		return options, nil
	}
	jobs, err := started(third)
	if err != nil || jobs <= none {
		return options, err
	}
	return append([]g8s.CapacityOption{{Nodes: int32(third), Jobs: int32(jobs)}}, options...), nil
}

// AdviceText formats the advice as a sentence.
func AdviceText(waiting Waiting, template *corev1.Node, options []g8s.CapacityOption, now time.Time) string {
	each := template.Status.Allocatable[g8s.ResourceGPU]
	text := fmt.Sprintf("%s with %s, waiting for %s", countNoun(len(waiting.Jobs), "job"), countNoun(int(waiting.GPUs), "GPU"), formatAge(now.Sub(waiting.Since)))
	best := options[len(options)-1]
	like := fmt.Sprintf("%s like %s (%s)", countNoun(int(best.Nodes), "node"), template.Name, strings.TrimSpace(countNoun(int(each.Value()), "GPU")+" "+gpu.TypeOf(template)))
	if int(best.Jobs) == len(waiting.Jobs) {
		text += fmt.Sprintf(": %s would start all", like)
	} else {
		text += fmt.Sprintf(": %s would start %d of them, and no number of such nodes the others", like, best.Jobs)
	}
	if len(options) > 1 {
		text += fmt.Sprintf("; %d would start %d", options[0].Nodes, options[0].Jobs)
	}
	return text
}

func countNoun(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func formatAge(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

// Waiting are the pods that wait for a pool, in scheduling order.
type Waiting struct {
	Pods []corev1.Pod
	// Jobs are the jobs of the pods, by the keys of jobOf.
	Jobs map[string]bool
	// GPUs is the sum of the requested whole GPUs. Since is when the first pod began to wait.
	GPUs  int64
	Since time.Time
}

// WaitingOf sorts waiting pods. It omits pods with unreadable requests, which the scheduler rejects.
func WaitingOf(pods []corev1.Pod) Waiting {
	out := Waiting{Jobs: map[string]bool{}}
	first := map[string]time.Time{}
	for _, pod := range pods {
		request, err := gpu.RequestOf(&pod)
		if err != nil || request.IsZero() || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		job, created := jobOf(&pod), pod.CreationTimestamp.Time
		if at, known := first[job]; !known || created.Before(at) {
			first[job] = created
		}
		if out.Since.IsZero() || created.Before(out.Since) {
			out.Since = created
		}
		out.Jobs[job] = true
		out.GPUs = amounts.Add(out.GPUs, request.Whole)
		out.Pods = append(out.Pods, pod)
	}
	slices.SortFunc(out.Pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(ptr.Deref(b.Spec.Priority, 0), ptr.Deref(a.Spec.Priority, 0)),
			first[jobOf(&a)].Compare(first[jobOf(&b)]), cmp.Compare(jobOf(&a), jobOf(&b)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// jobOf returns the job of a pod, or the pod itself if it has none.
func jobOf(pod *corev1.Pod) string {
	w := gang.WorkloadOf(pod)
	if w.IsPodAlone() {
		return pod.Namespace + "/" + pod.Name
	}
	return strings.Join([]string{pod.Namespace, w.Kind, w.Name}, "/")
}

// StartedJobs returns how many waiting jobs have a placement for all their waiting pods.
func StartedJobs(outcome *whatif.Outcome) int {
	starts := map[string]bool{}
	for i := range outcome.Pods {
		pod := &outcome.Pods[i]
		if before, known := starts[jobOf(pod)]; !known || before {
			starts[jobOf(pod)] = pod.Spec.NodeName != ""
		}
	}
	jobs := 0
	for _, all := range starts {
		if all {
			jobs++
		}
	}
	return jobs
}

// TemplateOf returns the node of a pool that new nodes would resemble: of the type that most waiting pods accept, with the most GPUs, and the first
// by name. It is nil if no node of the pool accepts pods.
func TemplateOf(nodes []corev1.Node, waiting Waiting) *corev1.Node {
	takers := map[string]int{}
	for i := range waiting.Pods {
		types, err := gpu.PodTypes(&waiting.Pods[i])
		if err != nil {
			continue
		}
		for _, name := range types.AcceptedNames() {
			takers[name]++
		}
	}
	rank := func(n *corev1.Node) (int, int64) {
		gpus := n.Status.Allocatable[g8s.ResourceGPU]
		return takers[gpu.TypeOf(n)], gpus.Value()
	}
	var best *corev1.Node
	for i := range nodes {
		node := &nodes[i]
		if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
			continue
		}
		if best == nil {
			best = node
			continue
		}
		a, b := rank(node)
		c, d := rank(best)
		if cmp.Or(cmp.Compare(c, a), cmp.Compare(d, b), cmp.Compare(node.Name, best.Name)) < 0 {
			best = node
		}
	}
	return best
}
