package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
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
	// hangs keeps Read waiting until it is closed.
	hangs chan struct{}
}

func (d *driver) Version() string                              { return "test" }
func (d *driver) Driver() string                               { return "test" }
func (d *driver) Source(string) string                         { return "test" }
func (d *driver) Processes(string) ([]hardware.Process, error) { return nil, nil }
func (d *driver) Edits([]string) (specs.ContainerEdits, error) { return specs.ContainerEdits{}, nil }
func (d *driver) Read() (hardware.Fleet, error) {
	if d.hangs != nil {
		<-d.hangs
	}
	return d.fleet, d.err
}
func (d *driver) Wait(ctx context.Context) (hardware.Event, error) {
	select {
	case event := <-d.events:
		return event, nil
	case <-ctx.Done():
		return hardware.Event{}, ctx.Err()
	}
}

func twoCards() hardware.Fleet {
	return hardware.Fleet{GPUs: []hardware.GPU{{UUID: "A", Index: 0}, {UUID: "B", Index: 1}}}
}

func cardsOf(dir string) *GPUMonitor {
	return newGPUMonitor(&Options{CDIDir: dir, Library: &driver{}, HealthyAfter: time.Minute, Log: slog.New(slog.DiscardHandler)}, NewMetrics())
}

func healthOf(c *GPUMonitor) map[string]string {
	view, _ := c.CurrentView()
	return view.Health
}

// TestACardThatIsGone is lost, and not forgotten: pods may hold it. One that another has replaced is.
func TestACardThatIsGone(t *testing.T) {
	c := cardsOf(t.TempDir())
	c.updateFleet(twoCards(), time.Now())
	c.updateFleet(hardware.Fleet{GPUs: []hardware.GPU{{UUID: "A", Index: 0}}}, time.Now())
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": "Lost"}, healthOf(c)); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	c.updateFleet(hardware.Fleet{GPUs: []hardware.GPU{{UUID: "A", Index: 0}, {UUID: "C", Index: 1}}}, time.Now())
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "C": gpu.Healthy}, healthOf(c)); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

// TestLastingFaultsOutliveTheAgent, and not the machine's restart.
func TestLastingFaultsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	before := cardsOf(dir)
	before.updateFleet(twoCards(), time.Now())
	before.handleEvent(hardware.Event{UUID: "B", XID: 79}, time.Now())
	after := cardsOf(dir)
	after.updateFleet(twoCards(), time.Now())
	want := map[string]string{"A": gpu.Healthy, "B": "Xid79"}
	if diff := cmp.Diff(want, healthOf(after)); diff != "" {
		t.Errorf("health after a restart of the agent (-want +got):\n%s", diff)
	}
	restarted := faultFile{path: filepath.Join(dir, faultFileName), bootID: "another"}
	if faults, err := restarted.readFaults(); err != nil || faults != nil {
		t.Errorf("faults %v, error %v after a restart of the machine, want none", faults, err)
	}
	if err := os.WriteFile(restarted.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	spoiled := cardsOf(dir) // goes on without
	spoiled.updateFleet(twoCards(), time.Now())
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": gpu.Healthy}, healthOf(spoiled)); diff != "" {
		t.Errorf("health with a spoiled file (-want +got):\n%s", diff)
	}
}

// TestWhoWaitsIsTold of an error at once, and of nothing when nothing changed.
func TestWhoWaitsIsTold(t *testing.T) {
	d := &driver{fleet: twoCards(), events: make(chan hardware.Event, 1)}
	c := newGPUMonitor(&Options{CDIDir: t.TempDir(), Library: d, HealthyAfter: time.Minute, Log: slog.New(slog.DiscardHandler)}, NewMetrics())
	c.updateFleet(d.fleet, time.Now())
	_, changed := c.CurrentView()
	c.updateFleet(twoCards(), time.Now())
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
	c.updateFleet(twoCards(), now)
	c.recordFailure(errors.New("unknown error"), lostAfter, now)
	if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": gpu.Healthy}, healthOf(c)); diff != "" {
		t.Errorf("health after a moment (-want +got):\n%s", diff)
	}
	c.recordFailure(errors.New("unknown error"), lostAfter+1, now)
	if diff := cmp.Diff(map[string]string{"A": "Lost", "B": "Lost"}, healthOf(c)); diff != "" {
		t.Errorf("health after a while (-want +got):\n%s", diff)
	}
}

// TestADriverThatHangs is one whose calls do not come back: nobody can say then how its cards are.
func TestADriverThatHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &driver{fleet: twoCards(), hangs: make(chan struct{})}
		c := newGPUMonitor(&Options{CDIDir: dir, Library: d, HealthyAfter: time.Minute, Log: slog.New(slog.DiscardHandler)}, NewMetrics())
		c.updateFleet(d.fleet, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep((lostAfter - 1) * pollInterval)
		if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": gpu.Healthy}, healthOf(c)); diff != "" {
			t.Errorf("health after a moment (-want +got):\n%s", diff)
		}
		time.Sleep(2 * goneAfter * pollInterval)
		if diff := cmp.Diff(map[string]string{"A": "Lost", "B": "Lost"}, healthOf(c)); diff != "" {
			t.Errorf("health after a while (-want +got):\n%s", diff)
		}
		close(d.hangs)
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff(map[string]string{"A": gpu.Healthy, "B": gpu.Healthy}, healthOf(c)); diff != "" {
			t.Errorf("health when it answers again (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestADriverThatIsGone ends the agent: a new driver has a library of its own, which the next process loads.
func TestADriverThatIsGone(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &driver{err: errors.New("uninitialized")}
		c := newGPUMonitor(&Options{CDIDir: dir, Library: d, HealthyAfter: time.Minute, Log: slog.New(slog.DiscardHandler)}, NewMetrics())
		c.updateFleet(twoCards(), time.Now())
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), "uninitialized") {
			t.Errorf("error %v, want the driver's", err)
		}
		if took := time.Since(began); took < goneAfter*pollInterval || took > (goneAfter+3)*pollInterval {
			t.Errorf("it ended after %s, want %s", took, goneAfter*pollInterval)
		}
		if diff := cmp.Diff(map[string]string{"A": "Lost", "B": "Lost"}, healthOf(c)); diff != "" {
			t.Errorf("health (-want +got):\n%s", diff)
		}
		cancel()
		synctest.Wait()
	})
}

// TestOneAgentAtATime: the second waits until the first has ended, and ends when it is told to.
func TestOneAgentAtATime(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	first, err := acquireNodeLock(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := acquireNodeLock(ctx, dir, log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want to wait in vain", err)
	}
	second := make(chan error, 1)
	go func() {
		next, err := acquireNodeLock(t.Context(), dir, log)
		if err == nil {
			next.releaseLock()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Errorf("the second runs beside the first, error %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	first.releaseLock()
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// TestALockThatKeepsNobodyOut ends the agent: somebody has emptied the folder, and another agent would lock another file.
func TestALockThatKeepsNobodyOut(t *testing.T) {
	for name, spoil := range map[string]func(dir, path string) error{
		"the file is gone":             func(_, path string) error { return os.Remove(path) },
		"the folder is gone":           func(dir, _ string) error { return os.RemoveAll(dir) },
		"another agent has made a new": func(_, path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cdi")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			held, err := acquireNodeLock(t.Context(), dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer held.releaseLock()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*lockCheckInterval)
				defer cancel()
				time.AfterFunc(2*lockCheckInterval, func() {
					if err := held.checkIntact(); err != nil {
						t.Errorf("the lock is lost before anything was done: %v", err)
					}
					if err := spoil(dir, filepath.Join(dir, lockFile)); err != nil {
						t.Error(err)
					}
				})
				if err := held.watchFolder(ctx); err == nil || ctx.Err() != nil {
					t.Errorf("error %v (%v), want one", err, ctx.Err())
				}
			})
		})
	}
}
