package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
)

// plugins offers slots of every resource that the node's GPUs have.
type plugins struct {
	starter *Starter
	gpus    *GPUMonitor
	fitness *Fitness
	metrics *Metrics
	log     *slog.Logger

	mu      sync.Mutex
	slots   map[string][]kubelet.Slot
	changed chan struct{}
}

// runPlugins keeps the slots up to date, and a plugin for each resource, until ctx ends. A resource that disappears keeps its plugin, which then offers
// none, because kubelet would keep the last slots for minutes. Every resource does the same while the node is unfit.
func (p *plugins) runPlugins(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	running := map[string]bool{}
	for {
		view, changed := p.gpus.CurrentView()
		unfit, _, fitChanged := p.fitness.CurrentState()
		offers := view.offersByResource()
		if unfit != "" {
			clear(offers)
		}
		p.countSlots(offers)
		for resource := range offers {
			if !running[resource] {
				running[resource] = true
				group.Go(func() error { return p.newPlugin(resource).Run(ctx) })
			}
		}
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-changed:
		case <-fitChanged:
		}
	}
}

// countSlots makes the slots of all resources.
func (p *plugins) countSlots(offers map[string]*offer) {
	claims, err := p.starter.ReadClaims()
	if err != nil {
		p.log.Info("Counting slots without kubelet's checkpoint", "error", err)
	}
	records, err := p.starter.Folder.ReadRecords()
	if err != nil {
		p.log.Warn("Counting slots without records", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string][]kubelet.Slot{}
	for resource, offer := range offers {
		next[resource] = offer.buildSlots(resource, p.slots[resource], claims, records)
	}
	same := len(next) == len(p.slots)
	for resource := range next {
		same = same && slices.Equal(next[resource], p.slots[resource])
	}
	if same {
		return
	}
	p.slots = next
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plugins) newPlugin(resource string) *kubelet.Plugin {
	return &kubelet.Plugin{
		Resource: resource, Kind: cdi.Kind, Folder: p.starter.DevicePlugins, Start: p.starter.Start, Log: p.log,
		Registered: p.metrics.registrations.WithLabelValues(resource).Inc,
		Slots: func() ([]kubelet.Slot, <-chan struct{}) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.slots[resource], p.changed
		},
	}
}
