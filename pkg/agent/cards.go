package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/health"
)

const (
	// pollInterval is the interval at which the driver is queried for all GPUs.
	pollInterval = time.Second
	// lostAfter is how many looks in a row may find that the driver fails, or does not answer, before all GPUs count as lost. Elapsed time would not do:
	// an agent that stood still, as one of a suspended machine, has asked nothing meanwhile.
	lostAfter = 10
	// goneAfter is at how many of them the agent ends: the driver's library is loaded once, and a newly installed one works only in another process.
	goneAfter = 60
	// patience is how many looks may pass between two answers: the driver is asked again an interval after its last answer, so the second look may come
	// just before the next one.
	patience = 2
	// eventRetryDelay is how long to wait after the driver failed to report events.
	eventRetryDelay = time.Second
)

// GPUMonitor keeps a [View] of the node's GPUs up to date. It is safe for concurrent use.
type GPUMonitor struct {
	library hardware.Library
	faults  faultFile
	metrics *Metrics
	log     *slog.Logger

	mu      sync.Mutex
	tracker *health.Tracker
	saved   map[string][]string
	view    View
	changed chan struct{}
}

// newGPUMonitor returns a monitor of a library, empty before Run. GPUs that a previous process found broken are still broken.
func newGPUMonitor(o *Options, metrics *Metrics) *GPUMonitor {
	c := &GPUMonitor{
		library: o.Library, faults: newFaultFile(o.CDIDir), metrics: metrics, log: o.Log,
		tracker: health.NewTracker(o.HealthyAfter), changed: make(chan struct{}),
	}
	saved, err := c.faults.readFaults()
	if err != nil {
		o.Log.Warn("Reading the faults that an agent before found", "error", err)
	}
	c.saved = saved
	c.tracker.RestoreFaults(saved, time.Now())
	return c
}

// answer is the driver's answer about all GPUs.
type answer struct {
	fleet hardware.Fleet
	err   error
}

// Run queries the driver until ctx ends. A short failure leaves the view as it is. It returns an error when the driver has failed for so long that a
// new process is needed.
func (c *GPUMonitor) Run(ctx context.Context) error {
	go c.watchErrors(ctx)
	answers := make(chan answer)
	go c.pollDriver(ctx, answers)
	ticker := time.NewTicker(pollInterval) // one that stood still ticks once
	defer ticker.Stop()
	failed, silent := 0, 0 // looks since the driver last reported the state of the GPUs, and since it last said anything
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case said := <-answers:
			silent = 0
			if err = said.err; err == nil {
				failed = 0
				c.updateFleet(said.fleet, time.Now())
				continue
			}
		case <-ticker.C:
			if silent++; silent <= patience {
				continue
			}
			err = errSilent // a call into a hanging driver never returns
		}
		if failed++; silent <= patience || silent > lostAfter {
			c.recordFailure(err, failed, time.Now())
		}
		if failed > goneAfter && silent <= patience {
			return fmt.Errorf("the driver has failed for %s: %w", goneAfter*pollInterval, err)
		}
	}
}

// errSilent is the failure of a driver that does not answer.
var errSilent = errors.New("the driver does not answer")

// pollDriver asks the driver again and again.
func (c *GPUMonitor) pollDriver(ctx context.Context, answers chan<- answer) {
	for {
		fleet, err := c.library.Read()
		select {
		case <-ctx.Done():
			return
		case answers <- answer{fleet, err}:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollInterval):
		}
	}
}

// recordFailure records that so many looks in a row have failed.
func (c *GPUMonitor) recordFailure(err error, failed int, now time.Time) {
	c.metrics.libraryErrors.Inc()
	c.log.Warn("Reading the cards", "error", err)
	if failed > lostAfter {
		c.updateFleet(hardware.Fleet{}, now) // all are lost
	}
}

// watchErrors waits for errors that the driver reports.
func (c *GPUMonitor) watchErrors(ctx context.Context) {
	for ctx.Err() == nil {
		event, err := c.library.Wait(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.metrics.libraryErrors.Inc()
			c.log.Warn("Waiting for errors of the cards", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(eventRetryDelay):
			}
		default:
			c.handleEvent(event, time.Now())
		}
	}
}

func (c *GPUMonitor) handleEvent(event hardware.Event, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := c.tracker.RecordEvent(event, now)
	c.metrics.xids.WithLabelValues(string(class)).Inc()
	c.log.Warn("A card reports an error", "card", event.UUID, "xid", event.XID, "class", class)
	c.rebuildView(func(*View) {})
}

// updateFleet adopts the driver's answer. A GPU that the driver listed before and no longer lists is lost.
func (c *GPUMonitor) updateFleet(fleet hardware.Fleet, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fleet.GPUs = withLostGPUs(fleet.GPUs, c.view.Fleet.GPUs)
	c.tracker.ObserveGPUs(fleet.GPUs, now)
	c.rebuildView(func(view *View) { view.Fleet, view.Known = fleet, true })
}

// withLostGPUs returns the GPUs, with missing ones added as lost.
func withLostGPUs(now, before []hardware.GPU) []hardware.GPU {
	known, indices := map[string]bool{}, map[int]bool{}
	for i := range now {
		known[now[i].UUID], indices[now[i].Index] = true, true
	}
	for i := range before {
		// If another GPU has its number now, it has been replaced.
		if card := before[i]; !known[card.UUID] && !indices[card.Index] {
			card.Signs = hardware.Signs{Lost: true}
			now = append(now, card)
		}
	}
	return sortByIndex(now)
}

// SetSlotsPerGPU sets the number of slots for sharing on each GPU, 0 for none.
func (c *GPUMonitor) SetSlotsPerGPU(slotsPerCard int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rebuildView(func(view *View) { view.SlotsPerGPU = slotsPerCard })
}

// rebuildView rebuilds the view. The caller holds the lock.
func (c *GPUMonitor) rebuildView(change func(*View)) {
	next := c.view
	change(&next)
	next.Health = map[string]string{}
	for i := range next.Fleet.GPUs {
		uuid := next.Fleet.GPUs[i].UUID
		next.Health[uuid] = c.tracker.StatusOf(uuid)
	}
	c.saveFaults()
	if reflect.DeepEqual(next, c.view) {
		return
	}
	if !maps.Equal(next.Health, c.view.Health) {
		c.log.Info("The health of cards is", "health", next.Health)
	}
	c.metrics.setHealth(&next)
	c.view = next
	close(c.changed)
	c.changed = make(chan struct{})
}

// saveFaults keeps lasting faults for the next process. The caller holds the lock.
func (c *GPUMonitor) saveFaults() {
	faults := c.tracker.LastingFaults()
	if reflect.DeepEqual(faults, c.saved) || len(faults)+len(c.saved) == 0 {
		return
	}
	if err := c.faults.writeFaults(faults); err != nil {
		c.log.Warn("Keeping the faults of cards: an agent that restarts now will not know them", "error", err)
		return
	}
	c.saved = faults
}

// CurrentView returns the view, and a channel that is closed when it changes. The view must not be changed.
func (c *GPUMonitor) CurrentView() (View, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.changed
}

// Edits returns what makes GPUs usable in a container.
func (c *GPUMonitor) Edits(uuids []string) (specs.ContainerEdits, error) {
	return c.library.Edits(uuids)
}
