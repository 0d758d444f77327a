// Package advice says how many more nodes would start the jobs that wait for a pool. It does not divide: it tries with the
// scheduler's own code, by package whatif, so that gangs, types, topology and what is free already count as they do for
// the scheduler.
//
// [Search] and [Text] are pure; the [Reconciler] gathers what the simulation is asked, and writes what it says.
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
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// maxNodes is the most new nodes that are tried.
const maxNodes = 128

// Search returns numbers of new nodes, and how many jobs each starts: the fewest that start as many as any number up to bound
// does, and a third of that, if it starts some. started is asked about a dozen times at most. The result is empty where new
// nodes start nothing more.
func Search(bound int, started func(nodes int) (int, error)) ([]g8s.CapacityOption, error) {
	none, err := started(0)
	if err != nil {
		return nil, err
	}
	most, err := started(bound)
	if err != nil || most <= none {
		return nil, err
	}
	few, many := 0, bound // few do not start as many as many do
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

// Text is the advice in a sentence.
func Text(waiting Waiting, template *corev1.Node, options []g8s.CapacityOption, now time.Time) string {
	each := template.Status.Allocatable[g8s.ResourceGPU]
	text := fmt.Sprintf("%s with %s, waiting for %s", count(len(waiting.Jobs), "job"), count(int(waiting.GPUs), "GPU"), age(now.Sub(waiting.Since)))
	best := options[len(options)-1]
	like := fmt.Sprintf("%s like %s (%s)", count(int(best.Nodes), "node"), template.Name, strings.TrimSpace(count(int(each.Value()), "GPU")+" "+gpu.TypeOf(template)))
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

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

// Waiting are the pods that wait for a pool, in the order in which the scheduler tries them.
type Waiting struct {
	Pods []corev1.Pod
	// Jobs are the jobs that they are of, by the keys of jobOf.
	Jobs map[string]bool
	// GPUs is what they ask together, whole GPUs, and Since when the first began to wait.
	GPUs  int64
	Since time.Time
}

// WaitingOf sorts pods that wait. Those whose request nobody can read are left out, as the scheduler refuses them.
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

// jobOf is the job that a pod is of, or the pod itself where it is of none.
func jobOf(pod *corev1.Pod) string {
	if job := pod.Labels[g8s.LabelJob]; job != "" {
		return strings.Join([]string{pod.Namespace, pod.Labels[g8s.LabelJobType], job}, "/")
	}
	return pod.Namespace + "/" + pod.Name
}

// Started is how many of the waiting jobs have a place for all their waiting pods.
func Started(outcome *whatif.Outcome) int {
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

// TemplateOf is the node of a pool that new ones would be like: of the type that the most waiting pods would take, with the
// most GPUs, the first by name. It is nil where the pool has no node that takes pods.
func TemplateOf(nodes []corev1.Node, waiting Waiting) *corev1.Node {
	takers := map[string]int{}
	for i := range waiting.Pods {
		types, err := gpu.PodTypes(&waiting.Pods[i])
		if err != nil {
			continue
		}
		for _, name := range types.Names() {
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
