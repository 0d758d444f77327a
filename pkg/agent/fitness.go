package agent

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// fitnessInterval is the interval at which the runtime is asked whether it supports CDI devices.
const fitnessInterval = 10 * time.Second

// Fitness is whether containers on the node can get the GPUs that the agent assigns. If not, the agent offers none: a runtime that ignores CDI
// devices would start containers without GPUs.
type Fitness struct {
	log *slog.Logger

	mu sync.Mutex
	// known is true once the runtime has been queried.
	known                bool
	ofRuntime, ofKubelet string
	// alignment is kubelet's Topology Manager policy, "" if unknown.
	alignment string
	// reporting is true if the agent allocates nothing.
	reporting bool
	// rivals are the device plugins that kubelet asks instead of the agent, by resource.
	rivals  map[string]string
	changed chan struct{}
}

func newFitness(mode Mode, log *slog.Logger) *Fitness {
	return &Fitness{reporting: mode == Report, log: log, rivals: map[string]string{}, changed: make(chan struct{})}
}

// Unfitness is why a node cannot allocate GPUs. The zero value is none.
type Unfitness struct {
	// Reason is the word of the node's condition.
	Reason string
	// Text describes it for people.
	Text string
}

// IsZero reports whether the node can allocate GPUs.
func (u Unfitness) IsZero() bool { return u == Unfitness{} }

// Run asks the runtime until ctx ends.
func (f *Fitness) Run(ctx context.Context, unfit func(context.Context) (string, error)) error {
	for {
		wait := fitnessInterval
		reason, err := unfit(ctx)
		if err != nil {
			wait = time.Second
			f.log.Info("Asking the container runtime what it can", "error", err)
		} else {
			f.updateState(func() { f.known, f.ofRuntime = true, reason })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (f *Fitness) setKubeletReason(reason string) { f.updateState(func() { f.ofKubelet = reason }) }

// setAlignment records kubelet's Topology Manager policy.
func (f *Fitness) setAlignment(policy string) { f.updateState(func() { f.alignment = policy }) }

// setRival records that kubelet asks another plugin for a resource, and with "" that it asks the agent.
func (f *Fitness) setRival(resource, rival string) {
	f.updateState(func() {
		if rival == "" {
			delete(f.rivals, resource)
			return
		}
		f.rivals[resource] = rival
	})
}

func (f *Fitness) updateState(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, knew, aligned := f.currentUnfitness(), f.known, f.alignment
	change()
	unfit := f.currentUnfitness()
	if unfit == before && f.known == knew && f.alignment == aligned {
		return
	}
	if !unfit.IsZero() && unfit != before {
		f.log.Error("This node cannot give out cards", "reason", unfit.Text)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// currentUnfitness is why the node cannot allocate GPUs. The caller holds the lock.
func (f *Fitness) currentUnfitness() Unfitness {
	switch {
	case f.reporting:
	case f.ofRuntime != "":
		return Unfitness{names.ReasonUnfit, f.ofRuntime}
	case f.ofKubelet != "":
		return Unfitness{names.ReasonUnfit, f.ofKubelet}
	case len(f.rivals) > 0:
		resource := slices.Min(slices.Collect(maps.Keys(f.rivals)))
		return Unfitness{names.ReasonOtherPlugin, "kubelet asks another device plugin of " + resource + ", which knows nothing of the cards that the scheduler chooses: " +
			f.rivals[resource] + "; leave one of them on this node"}
	}
	return Unfitness{}
}

// readyCondition returns the condition for the node. known is false until the runtime has answered.
func (f *Fitness) readyCondition() (condition corev1.NodeCondition, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reporting {
		return reportingCondition(), f.known
	}
	return readyCondition(f.currentUnfitness(), f.alignment), f.known
}

// CurrentState returns why the node cannot allocate GPUs, and a channel that is closed when that changes. known is false until the runtime has
// answered.
func (f *Fitness) CurrentState() (unfit Unfitness, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.currentUnfitness(), f.known, f.changed
}
