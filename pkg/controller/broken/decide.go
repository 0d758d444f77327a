// Package broken has pods leave cards that were found broken, so that their jobs go on elsewhere: those that cannot start because
// of it, at once, and those that run on a card that only a reset or a restart mends, after a while in which they may end by
// themselves. The node's agent takes such cards out and leaves pods alone; see docs/agent.md.
//
// [Decide] is a pure function of the pods of a pool that hold such cards. The [Reconciler] gathers them and asks for evictions.
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

// Settings are an administrator's.
type Settings struct {
	// After is how long a pod runs on with a card that only a reset or a restart mends; 0 is for ever.
	After time.Duration
	// Budget is on how many nodes of a pool cards may have broken of late for their pods to be ended, in percent; one always may.
	Budget int
}

// together is how far apart cards break at most that count as one for the budget. One that waits for its repair for days says nothing of
// those that break today.
const together = time.Hour

// Pool is what is known of the nodes of a pool, whoever holds their cards by now.
type Pool struct {
	Nodes int
	// Struck is when a card last broke that only a reset or a restart mends, of each node that has one.
	Struck map[string]time.Time
}

// Holder is a pod that holds cards which must not be used.
type Holder struct {
	Pod  *corev1.Pod
	Node string
	// Cards are those of the pod, by index.
	Cards []gpu.Card
}

// Step is what becomes of a holder.
type Step struct {
	*Holder
	// Evict says that it is to leave; Held, if not empty, why it stays though it would.
	Evict bool
	Held  string
	// Why says what the step follows from.
	Why string
}

// Decide says what becomes of the pods of a pool that hold broken cards, all of them, and when to look again; 0 for
// not before something changes.
func Decide(holders []Holder, pool Pool, settings Settings, now time.Time) (steps []Step, again time.Duration) {
	storms := pool.storms(settings.Budget)
	for i := range holders {
		holder := &holders[i]
		step := Step{Holder: holder}
		dead, left := holder.dead(settings.After, now)
		switch {
		case holder.waits() != nil:
			step.Evict, step.Why = true, told(holder.waits())+": its container cannot start"
		case dead == nil:
		case left > 0:
			if again == 0 || left < again {
				again = left
			}
		default:
			step.Evict, step.Why, step.Held = true, told(dead), storms[holder.Node]
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

// storms says why pods that run are not ended, of each node where they may not: when cards of many nodes break at about the same time, that which
// tells so, or what they share, is broken rather, and all jobs of a pool must not end for it. Nodes count whose pods have left already, or
// the next ones would follow one by one; and it ends when nodes are mended, and not by itself: a person decides.
func (p *Pool) storms(budget int) map[string]string {
	times := slices.SortedFunc(maps.Values(p.Struck), time.Time.Compare)
	allowed, out := max(1, p.Nodes*budget/100), map[string]string{}
	for node, at := range p.Struck {
		first, _ := slices.BinarySearchFunc(times, at.Add(-together), time.Time.Compare)
		behind, _ := slices.BinarySearchFunc(times, at.Add(together+1), time.Time.Compare)
		if struck := behind - first; struck > allowed {
			out[node] = fmt.Sprintf("cards of %d of the %d nodes of the pool broke within an hour of it, and no more than %d may for their pods to be ended",
				struck, p.Nodes, allowed)
		}
	}
	return out
}

// struck is when a card of a node broke last that only a reset or a restart mends, zero if there is none.
func struck(cards []gpu.Card) (at time.Time) {
	for _, card := range cards {
		if fault.OnlyResetMends(card.Health) && card.Since.After(at) {
			at = card.Since
		}
	}
	return at
}

// dead are the cards that only a reset or a restart mends, and how long the pod may run on with them.
func (h *Holder) dead(after time.Duration, now time.Time) (dead []gpu.Card, left time.Duration) {
	if after == 0 {
		return nil, 0
	}
	for _, card := range h.Cards {
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

// mustLeave reports whether the pod is one that leaves for its cards, now or in a while.
func (h *Holder) mustLeave(after time.Duration, now time.Time) bool {
	dead, _ := h.dead(after, now)
	return len(dead) > 0 || len(h.waits()) > 0
}

// waits are the cards for which a container of the pod cannot start: the agent refuses it until they are well.
func (h *Holder) waits() []gpu.Card {
	assignment, err := gpu.ParseAssignment(h.Pod.Annotations[g8s.AnnotationGPUDevices])
	if err != nil {
		assignment = nil // it holds slices alone, or it would not be here
	}
	var cards []gpu.Card
	for _, status := range slices.Concat(h.Pod.Status.InitContainerStatuses, h.Pod.Status.ContainerStatuses) {
		if status.State.Waiting == nil || !isRefused(status.State.Waiting) {
			continue
		}
		for _, card := range h.Cards {
			if h.isOf(assignment, status.Name, &card) && !slices.ContainsFunc(cards, func(c gpu.Card) bool { return c.UUID == card.UUID }) {
				cards = append(cards, card)
			}
		}
	}
	return cards
}

// isRefused reports whether a container waits because it could not be created, as one does that the agent refuses, or has crashed and would
// be refused next. One that waits for its image or for an init container has not been refused yet.
func isRefused(waiting *corev1.ContainerStateWaiting) bool {
	switch waiting.Reason {
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
		return true
	}
	return false
}

// isOf reports whether a card is a container's: by the scheduler's choice, or as one of its slices is of that card, which is told of
// the pod as a whole.
func (h *Holder) isOf(assignment gpu.Assignment, container string, card *gpu.Card) bool {
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

// told names cards with what is wrong with them.
func told(cards []gpu.Card) string {
	words := make([]string, len(cards))
	for i := range cards {
		words[i] = fmt.Sprintf("GPU %d (%s) is broken (%s)", cards[i].Index, cards[i].UUID, cards[i].Health)
	}
	return strings.Join(words, ", ")
}
