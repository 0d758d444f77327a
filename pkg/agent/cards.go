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
	// poll is the interval at which the driver is queried for all GPUs.
	poll = time.Second
	// driverPatience is how long the driver may fail, or not answer, before all GPUs count as lost.
	driverPatience = 10 * time.Second
	// driverGone is how long it may fail before the agent ends: the driver's library is loaded once, and a newly installed one works only in another
	// process.
	driverGone = time.Minute
	// retry is how long to wait after the driver failed to report events.
	retry = time.Second
)

// Cards keeps a [View] of the node's GPUs up to date. It is safe for concurrent use.
type Cards struct {
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

// newCards returns a monitor of a library, empty before Run. GPUs that a previous process found broken are still broken.
func newCards(o *Options, metrics *Metrics) *Cards {
	c := &Cards{
		library: o.Library, faults: faultsIn(o.CDIDir), metrics: metrics, log: o.Log,
		tracker: health.NewTracker(o.HealthyAfter), changed: make(chan struct{}),
	}
	saved, err := c.faults.read()
	if err != nil {
		o.Log.Warn("Reading the faults that an agent before found", "error", err)
	}
	c.saved = saved
	c.tracker.Restore(saved, time.Now())
	return c
}

// answer is the driver's answer about all GPUs.
type answer struct {
	fleet hardware.Fleet
	err   error
}

// Run queries the driver until ctx ends. A short failure leaves the view as it is. It returns an error when the driver has failed for so long that a
// new process is needed.
func (c *Cards) Run(ctx context.Context) error {
	go c.listen(ctx)
	answers := make(chan answer)
	go c.ask(ctx, answers)
	answered := time.Now() // when it last reported the state of the GPUs
	for heard := answered; ; {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case said := <-answers:
			heard = time.Now()
			if err = said.err; err == nil {
				answered = heard
				c.observe(said.fleet, answered)
				continue
			}
		case <-time.After(max(driverPatience-time.Since(heard), 0) + poll):
			err = errSilent // a call into a hanging driver never returns
		}
		if c.failed(err, time.Now(), answered); !errors.Is(err, errSilent) && time.Since(answered) > driverGone {
			return fmt.Errorf("the driver has failed for %s: %w", driverGone, err)
		}
	}
}

// errSilent is the failure of a driver that does not answer.
var errSilent = errors.New("the driver does not answer")

// ask asks the driver again and again.
func (c *Cards) ask(ctx context.Context, answers chan<- answer) {
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
		case <-time.After(poll):
		}
	}
}

// failed records that the driver has not answered since some time.
func (c *Cards) failed(err error, now, since time.Time) {
	c.metrics.libraryErrors.Inc()
	c.log.Warn("Reading the cards", "error", err)
	if now.Sub(since) > driverPatience {
		c.observe(hardware.Fleet{}, now) // all are lost
	}
}

// listen waits for errors that the driver reports.
func (c *Cards) listen(ctx context.Context) {
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
			case <-time.After(retry):
			}
		default:
			c.event(event, time.Now())
		}
	}
}

func (c *Cards) event(event hardware.Event, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := c.tracker.Event(event, now)
	c.metrics.xids.WithLabelValues(string(class)).Inc()
	c.log.Warn("A card reports an error", "card", event.UUID, "xid", event.XID, "class", class)
	c.refresh(func(*View) {})
}

// observe adopts the driver's answer. A GPU that the driver listed before and no longer lists is lost.
func (c *Cards) observe(fleet hardware.Fleet, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fleet.Cards = withLost(fleet.Cards, c.view.Fleet.Cards)
	c.tracker.Observe(fleet.Cards, now)
	c.refresh(func(view *View) { view.Fleet, view.Known = fleet, true })
}

// withLost returns the GPUs, with missing ones added as lost.
func withLost(now, before []hardware.Card) []hardware.Card {
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
	return byIndex(now)
}

// Share sets the number of slots for sharing on each GPU, 0 for none.
func (c *Cards) Share(slotsPerCard int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh(func(view *View) { view.SlotsPerCard = slotsPerCard })
}

// refresh rebuilds the view. The caller holds the lock.
func (c *Cards) refresh(change func(*View)) {
	next := c.view
	change(&next)
	next.Health = map[string]string{}
	for i := range next.Fleet.Cards {
		uuid := next.Fleet.Cards[i].UUID
		next.Health[uuid] = c.tracker.Of(uuid)
	}
	c.save()
	if reflect.DeepEqual(next, c.view) {
		return
	}
	if !maps.Equal(next.Health, c.view.Health) {
		c.log.Info("The health of cards is", "health", next.Health)
	}
	c.metrics.health(&next)
	c.view = next
	close(c.changed)
	c.changed = make(chan struct{})
}

// save keeps lasting faults for the next process. The caller holds the lock.
func (c *Cards) save() {
	faults := c.tracker.Faults()
	if reflect.DeepEqual(faults, c.saved) || len(faults)+len(c.saved) == 0 {
		return
	}
	if err := c.faults.write(faults); err != nil {
		c.log.Warn("Keeping the faults of cards: an agent that restarts now will not know them", "error", err)
		return
	}
	c.saved = faults
}

// Now returns the view, and a channel that is closed when it changes. The view must not be changed.
func (c *Cards) Now() (View, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.changed
}

// Edits returns what makes GPUs usable in a container.
func (c *Cards) Edits(uuids []string) (specs.ContainerEdits, error) { return c.library.Edits(uuids) }
