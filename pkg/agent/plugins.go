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
	// offered returns the devices of a resource that kubelet offers.
	offered func(ctx context.Context, resource string) ([]string, error)

	mu      sync.Mutex
	slots   map[string][]kubelet.Slot
	changed chan struct{}
	// unregistered are the resources that kubelet has not taken yet since the beginning.
	unregistered map[string]bool
}

// runPlugins keeps the slots up to date, and a plugin for each resource, until ctx ends. A resource that disappears keeps its plugin, which then offers
// none, because kubelet would keep the last slots for minutes. Every resource does the same while the node is unfit. allRegistered is called when kubelet
// has taken every plugin, perhaps more than once.
func (p *plugins) runPlugins(ctx context.Context, allRegistered func()) error {
	group, ctx := errgroup.WithContext(ctx)
	running := map[string]bool{}
	for {
		view, changed := p.gpus.CurrentView()
		unfit, _, fitChanged := p.fitness.CurrentState()
		offers := view.offersByResource()
		if !unfit.IsZero() {
			clear(offers)
		}
		p.countSlots(offers)
		p.expectResources(offers, running)
		for resource := range offers {
			if !running[resource] {
				running[resource] = true
				group.Go(func() error { return p.newPlugin(resource, allRegistered).Run(ctx) })
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

// expectResources records which resources are about to be registered.
func (p *plugins) expectResources(offers map[string]*offer, running map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource := range offers {
		if !running[resource] {
			p.unregistered[resource] = true
		}
	}
}

// recordRegistered records that kubelet has taken the plugin of a resource, and reports whether it has taken all.
func (p *plugins) recordRegistered(resource string) bool {
	p.metrics.registrations.WithLabelValues(resource).Inc()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unregistered, resource)
	return len(p.unregistered) == 0
}

func (p *plugins) newPlugin(resource string, allRegistered func()) *kubelet.Plugin {
	return &kubelet.Plugin{
		Resource: resource, Kind: cdi.Kind, Folder: p.starter.DevicePlugins, Start: p.starter.Start, Log: p.log,
		Registered: func() {
			if p.recordRegistered(resource) {
				allRegistered()
			}
		},
		Offered: func(ctx context.Context) ([]string, error) { return p.offered(ctx, resource) },
		Displaced: func(rival *kubelet.Rival) {
			text := ""
			if rival != nil {
				text = rival.String()
			}
			p.fitness.setRival(resource, text)
		},
		Slots: func() ([]kubelet.Slot, <-chan struct{}) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.slots[resource], p.changed
		},
	}
}
