package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// check is the interval at which the runtime is asked whether it supports CDI devices.
const check = 10 * time.Second

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
		wait := check
		reason, err := unfit(ctx)
		if err != nil {
			wait = time.Second
			f.log.Info("Asking the container runtime what it can", "error", err)
		} else {
			f.set(func() { f.known, f.ofRuntime = true, reason })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (f *Fitness) kubelet(reason string) { f.set(func() { f.ofKubelet = reason }) }

func (f *Fitness) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, knew := f.reason(), f.known
	change()
	reason := f.reason()
	if reason == before && f.known == knew {
		return
	}
	if reason != "" {
		f.log.Error("This node cannot give out cards", "reason", reason)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// reason is why the node cannot allocate GPUs. The caller holds the lock.
func (f *Fitness) reason() string {
	switch {
	case f.ofRuntime != "":
		return f.ofRuntime
	case f.ofKubelet != "":
		return f.ofKubelet
	}
	return ""
}

// Now returns why the node cannot allocate GPUs, "" if it can, and a channel that is closed when that changes. known is false until the runtime has
// answered.
func (f *Fitness) Now() (unfit string, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reason(), f.known, f.changed
}
