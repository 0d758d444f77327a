// Package broken evicts pods from broken GPUs so that their jobs continue elsewhere. Pods that cannot start because of such a GPU are evicted at
// once. Pods that run on a GPU that only a reset or a restart fixes are evicted after a delay in which they may end by themselves. The node's agent
// withdraws such GPUs and does not touch pods; see docs/agent.md.
//
// [Decide] is a pure function of the pods of a pool that hold such GPUs. The [Reconciler] gathers them and requests evictions.
package broken

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

// Settings are set by an administrator.
type Settings struct {
	// After is how long a pod keeps running on a GPU that only a reset or a restart fixes; 0 means forever.
	After time.Duration
	// Budget is the percentage of a pool's nodes whose GPUs may have broken recently for their pods to be evicted. One node is always allowed.
	Budget int
}

// stormWindow is the window in which broken GPUs count together for the budget. A GPU that has waited for repair for days says nothing about those that
// break today.
const stormWindow = time.Hour

// Pool describes the nodes of a pool, regardless of the pods that hold their GPUs.
type Pool struct {
	Nodes int
	// LastBroken is when a GPU that only a reset or a restart fixes last broke, by node.
	LastBroken map[string]time.Time
}

// Holder is a pod that holds GPUs that must not be used.
type Holder struct {
	Pod  *corev1.Pod
	Node string
	// GPUs are the broken GPUs of the pod, by index.
	GPUs []gpu.GPU
}

// Step is the action for a holder.
type Step struct {
	*Holder
	// Evict requests the eviction. Held, if not empty, is the reason against it.
	Evict bool
	Held  string
	// Why is the cause of the step.
	Why string
}

// Decide returns the steps for all pods of a pool that hold broken GPUs, and when to reconcile again; 0 means not before a change.
func Decide(holders []Holder, pool Pool, settings Settings, now time.Time) (steps []Step, again time.Duration) {
	storms := pool.stormReasons(settings.Budget)
	for i := range holders {
		holder := &holders[i]
		step := Step{Holder: holder}
		dead, left := holder.deadGPUs(settings.After, now)
		switch {
		case holder.refusedGPUs() != nil:
			step.Evict, step.Why = true, describeGPUs(holder.refusedGPUs())+": its container cannot start"
		case dead == nil:
		case left > 0:
			if again == 0 || left < again {
				again = left
			}
		default:
			step.Evict, step.Why, step.Held = true, describeGPUs(dead), storms[holder.Node]
		}
		if step.Evict && eviction.HoldOf(holder.Pod, eviction.BrokenGPU) == eviction.NoMigration {
			step.Held = "it is not to be moved without a person"
		}
		if step.Held != "" {
			step.Evict = false
		}
		if step.Evict || step.Held != "" {
			steps = append(steps, step)
		}
	}
	return steps, again
}

// stormReasons returns, by node, why running pods may not be evicted: when GPUs of many nodes break at about the same time, their detection or a shared
// component is likely broken, and not all jobs of a pool may end for that. Nodes whose pods have left still count, or the next ones would follow one
// by one. A storm ends when the nodes are repaired, and not by itself: an administrator decides.
func (p *Pool) stormReasons(budget int) map[string]string {
	times := slices.SortedFunc(maps.Values(p.LastBroken), time.Time.Compare)
	allowed, out := max(1, p.Nodes*budget/100), map[string]string{}
	for node, at := range p.LastBroken {
		first, _ := slices.BinarySearchFunc(times, at.Add(-stormWindow), time.Time.Compare)
		behind, _ := slices.BinarySearchFunc(times, at.Add(stormWindow+1), time.Time.Compare)
		if struck := behind - first; struck > allowed {
			out[node] = fmt.Sprintf("cards of %d of the %d nodes of the pool broke within an hour of it, and no more than %d may for their pods to be ended",
				struck, p.Nodes, allowed)
		}
	}
	return out
}

// lastBroken returns when a GPU that only a reset or a restart fixes last broke, zero if none did.
func lastBroken(cards []gpu.GPU) (at time.Time) {
	for _, card := range cards {
		if fault.OnlyResetMends(card.Health) && card.Since.After(at) {
			at = card.Since
		}
	}
	return at
}

// deadGPUs returns the GPUs that only a reset or a restart fixes, and how long the pod may keep running on them.
func (h *Holder) deadGPUs(after time.Duration, now time.Time) (dead []gpu.GPU, left time.Duration) {
	if after == 0 {
		return nil, 0
	}
	for _, card := range h.GPUs {
		if !fault.OnlyResetMends(card.Health) {
			continue
		}
		if until := card.Since.Add(after).Sub(now); len(dead) == 0 || until < left {
			left = until
		}
		dead = append(dead, card)
	}
	return dead, left
}

// mustLeave reports whether the pod must be evicted for its GPUs, now or later.
func (h *Holder) mustLeave(after time.Duration, now time.Time) bool {
	dead, _ := h.deadGPUs(after, now)
	return len(dead) > 0 || len(h.refusedGPUs()) > 0
}

// refusedGPUs returns the GPUs that keep a container of the pod from starting: the agent refuses it until they are healthy.
func (h *Holder) refusedGPUs() []gpu.GPU {
	assignment, err := gpu.ParseAssignment(h.Pod.Annotations[g8s.AnnotationGPUDevices])
	if err != nil {
		assignment = nil // it holds only slices, or it would not be here
	}
	var cards []gpu.GPU
	for _, status := range slices.Concat(h.Pod.Status.InitContainerStatuses, h.Pod.Status.ContainerStatuses) {
		if status.State.Waiting == nil || !isRefused(status.State.Waiting) {
			continue
		}
		for _, card := range h.GPUs {
			if h.belongsTo(assignment, status.Name, &card) && !slices.ContainsFunc(cards, func(c gpu.GPU) bool { return c.UUID == card.UUID }) {
				cards = append(cards, card)
			}
		}
	}
	return cards
}

// isRefused reports whether a container waits because its creation failed, as it does after the agent's refusal, or because it crashed and would be
// refused next. A container that waits for its image or an init container has not been refused yet.
func isRefused(waiting *corev1.ContainerStateWaiting) bool {
	switch waiting.Reason {
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
		return true
	}
	return false
}

// belongsTo reports whether a GPU belongs to a container: because the scheduler assigned it, or because it has one of the container's slices, which are
// reported for the pod as a whole.
func (h *Holder) belongsTo(assignment gpu.Assignment, container string, card *gpu.GPU) bool {
	if slices.ContainsFunc(assignment[container], func(d gpu.Device) bool { return d.UUID == card.UUID }) {
		return true
	}
	for _, devices := range assignment {
		if slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.UUID == card.UUID }) {
			return false // another container's
		}
	}
	return slices.ContainsFunc(slices.Concat(h.Pod.Spec.InitContainers, h.Pod.Spec.Containers), func(c corev1.Container) bool {
		return c.Name == container && hasSlices(&c)
	})
}

func hasSlices(container *corev1.Container) bool {
	for name := range container.Resources.Limits {
		if strings.HasPrefix(string(name), g8s.ResourceMIGPrefix) {
			return true
		}
	}
	return false
}

// describeGPUs lists GPUs with their faults.
func describeGPUs(cards []gpu.GPU) string {
	words := make([]string, len(cards))
	for i := range cards {
		words[i] = fmt.Sprintf("GPU %d (%s) is broken (%s)", cards[i].Index, cards[i].UUID, cards[i].Health)
	}
	return strings.Join(words, ", ")
}
