package agent

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// poll is how often the driver is asked for all cards.
const poll = time.Second

// View is the node's cards at one moment.
type View struct {
	Fleet hardware.Fleet
	// Health is [gpu.Healthy] or one word for what is wrong, by UUID of the card.
	Health map[string]string
	// SlotsPerCard is how many slots a shared card has, 0 where cards are not shared.
	SlotsPerCard int
}

// Cards keeps the view up to date.
type Cards struct {
	library hardware.Library
	log     *slog.Logger

	mu      sync.Mutex
	view    View
	changed chan struct{}
}

// NewCards returns the cards of a library, none before Run.
func NewCards(library hardware.Library, log *slog.Logger) *Cards {
	return &Cards{library: library, log: log, changed: make(chan struct{})}
}

// Run asks the driver until ctx ends. One that does not answer leaves the view as it is.
func (c *Cards) Run(ctx context.Context) error {
	for {
		if err := c.refresh(); err != nil {
			c.log.Warn("Reading the cards", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(poll):
		}
	}
}

func (c *Cards) refresh() error {
	fleet, err := c.library.Read()
	if err != nil {
		return err
	}
	health := map[string]string{}
	for i := range fleet.Cards {
		health[fleet.Cards[i].UUID] = gpu.Healthy
		if fleet.Cards[i].Signs.Lost {
			health[fleet.Cards[i].UUID] = "Lost"
		}
	}
	c.update(func(view *View) { view.Fleet, view.Health = fleet, health })
	return nil
}

// Share says how many slots each card has for those who share it, 0 for none.
func (c *Cards) Share(slotsPerCard int) {
	c.update(func(view *View) { view.SlotsPerCard = slotsPerCard })
}

func (c *Cards) update(change func(*View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.view
	change(&next)
	if reflect.DeepEqual(next, c.view) {
		return
	}
	c.view = next
	close(c.changed)
	c.changed = make(chan struct{})
}

// Now returns the view, and a channel that is closed when there is another. The view must not be changed.
func (c *Cards) Now() (View, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.changed
}

// Edits returns what makes cards usable in a container.
func (c *Cards) Edits(uuids []string) (specs.ContainerEdits, error) { return c.library.Edits(uuids) }

// Offered returns what can be given out, by UUID.
func (v *View) Offered() map[string]binding.Card {
	offered := map[string]binding.Card{}
	for i := range v.Fleet.Cards {
		card := &v.Fleet.Cards[i]
		if card.MIG {
			for _, slice := range card.Slices {
				offered[slice.UUID] = binding.Card{
					Resource: names.ResourceMIGPrefix + slice.Profile, Index: card.Index, MemoryMiB: slice.MemoryMiB, Health: v.Health[card.UUID],
				}
			}
			continue
		}
		one := binding.Card{Resource: names.ResourceGPU, Index: card.Index, MemoryMiB: card.MemoryMiB, Health: v.Health[card.UUID]}
		if v.SlotsPerCard > 0 {
			one.Shared = names.ResourceSharedGPU
		}
		offered[card.UUID] = one
	}
	return offered
}

// offers returns what there is of each resource.
func (v *View) offers() map[string]*offer {
	offers := map[string]*offer{}
	add := func(resource, uuid string, perUnit int, healthy bool) {
		if offers[resource] == nil {
			offers[resource] = &offer{units: map[string]bool{}, perUnit: perUnit}
		}
		offers[resource].units[uuid] = healthy
	}
	for uuid, card := range v.Offered() {
		add(card.Resource, uuid, 1, card.Health == gpu.Healthy)
		if card.Shared != "" {
			add(card.Shared, uuid, v.SlotsPerCard, card.Health == gpu.Healthy)
		}
	}
	return offers
}

// Resources returns the names of all that is offered, sorted.
func (v *View) Resources() []string { return slices.Sorted(maps.Keys(v.offers())) }
