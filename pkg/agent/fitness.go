package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"
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
	changed              chan struct{}
}

func newFitness(log *slog.Logger) *Fitness { return &Fitness{log: log, changed: make(chan struct{})} }

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

func (f *Fitness) updateState(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, knew := f.currentReason(), f.known
	change()
	reason := f.currentReason()
	if reason == before && f.known == knew {
		return
	}
	if reason != "" {
		f.log.Error("This node cannot give out cards", "reason", reason)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// currentReason is why the node cannot allocate GPUs. The caller holds the lock.
func (f *Fitness) currentReason() string {
	switch {
	case f.ofRuntime != "":
		return f.ofRuntime
	case f.ofKubelet != "":
		return f.ofKubelet
	}
	return ""
}

// CurrentState returns why the node cannot allocate GPUs, "" if it can, and a channel that is closed when that changes. known is false until the runtime has
// answered.
func (f *Fitness) CurrentState() (unfit string, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.currentReason(), f.known, f.changed
}
