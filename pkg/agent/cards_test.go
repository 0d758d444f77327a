package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// driver is a driver whose answers a test writes.
type driver struct {
	fleet  hardware.Fleet
	err    error
	events chan hardware.Event
}

func (d *driver) Version() string                              { return "test" }
func (d *driver) Read() (hardware.Fleet, error)                { return d.fleet, d.err }
func (d *driver) Processes(string) ([]hardware.Process, error) { return nil, nil }
func (d *driver) Edits([]string) (specs.ContainerEdits, error) { return specs.ContainerEdits{}, nil }
func (d *driver) Wait(ctx context.Context) (hardware.Event, error) {
	select {
	case event := <-d.events:
		return event, nil
	case <-ctx.Done():
		return hardware.Event{}, ctx.Err()
	}
}

func twoCards() hardware.Fleet {
	return hardware.Fleet{Cards: []hardware.Card{{UUID: "A", Index: 0}, {UUID: "B", Index: 1}}}
}

func cardsOf(dir string) *Cards {
	return newCards(&Options{CDIDir: dir, Library: &driver{}, HealthyAfter: time.Minute, Log: slog.New(slog.DiscardHandler)}, NewMetrics())
}

func healthOf(c *Cards) map[string]string {
	view, _ := c.Now()
	return view.Health
}

// TestACardThatIsGone is lost, and not forgotten: pods may hold it. One that another has replaced is.
func TestACardThatIsGone(t *testing.T) {
	c := cardsOf(t.TempDir())
	c.observe(twoCards(), time.Now())
	c.observe(hardware.Fleet{Cards: []hardware.Card{{UUID: "A", Index: 0}}}, time.Now())
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": "Lost"}, healthOf(c)); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	c.observe(hardware.Fleet{Cards: []hardware.Card{{UUID: "A", Index: 0}, {UUID: "C", Index: 1}}}, time.Now())
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "C": gpu.Healthy}, healthOf(c)); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

// TestLastingFaultsOutliveTheAgent, and not the machine's restart.
func TestLastingFaultsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	before := cardsOf(dir)
	before.observe(twoCards(), time.Now())
	before.event(hardware.Event{UUID: "B", XID: 79}, time.Now())
	after := cardsOf(dir)
	after.observe(twoCards(), time.Now())
	want := map[string]string{"A": gpu.Healthy, "B": "Xid79"}
	if diff := cmp.Diff(want, healthOf(after)); diff != "" {
		t.Errorf("health after a restart of the agent (-want +got):\n%s", diff)
	}
	restarted := faultFile{path: filepath.Join(dir, faultFileName), bootID: "another"}
	if faults, err := restarted.read(); err != nil || faults != nil {
		t.Errorf("faults %v, error %v after a restart of the machine, want none", faults, err)
	}
	if err := os.WriteFile(restarted.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	spoiled := cardsOf(dir) // goes on without
	spoiled.observe(twoCards(), time.Now())
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": gpu.Healthy}, healthOf(spoiled)); diff != "" {
		t.Errorf("health with a spoiled file (-want +got):\n%s", diff)
	}
}

// TestWhoWaitsIsTold of an error at once, and of nothing when nothing changed.
func TestWhoWaitsIsTold(t *testing.T) {
	d := &driver{fleet: twoCards(), events: make(chan hardware.Event, 1)}
	c := newCards(&Options{CDIDir: t.TempDir(), Library: d, HealthyAfter: time.Minute, Log: slog.New(slog.DiscardHandler)}, NewMetrics())
	c.observe(d.fleet, time.Now())
	_, changed := c.Now()
	c.observe(twoCards(), time.Now())
	select {
	case <-changed:
		t.Error("told of a change though nothing changed")
	default:
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	d.events <- hardware.Event{UUID: "A", XID: 95}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Error("not told of an error")
	}
	if got := healthOf(c)["A"]; got != "Xid95" {
		t.Errorf("card A is %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestADriverThatFails for a moment takes no card out, and for long all of them.
func TestADriverThatFails(t *testing.T) {
	c := cardsOf(t.TempDir())
	now := time.Now()
	c.observe(twoCards(), now)
	c.failed(errors.New("unknown error"), now.Add(driverPatience), now)
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": gpu.Healthy}, healthOf(c)); diff != "" {
		t.Errorf("health after a moment (-want +got):\n%s", diff)
	}
	c.failed(errors.New("unknown error"), now.Add(driverPatience+time.Second), now)
	if diff := cmp.Diff(map[string]string{"A": "Lost", "B": "Lost"}, healthOf(c)); diff != "" {
		t.Errorf("health after a while (-want +got):\n%s", diff)
	}
}

// TestOneAgentAtATime: the second waits until the first has ended, and ends when it is told to.
func TestOneAgentAtATime(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	release, err := alone(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := alone(ctx, dir, log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want to wait in vain", err)
	}
	second := make(chan error, 1)
	go func() {
		free, err := alone(t.Context(), dir, log)
		if err == nil {
			free()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Errorf("the second runs beside the first, error %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	release()
	if err := <-second; err != nil {
		t.Error(err)
	}
}
