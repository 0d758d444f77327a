package spot_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

var interruptions = flag.Int("interruptions", 160, "how many machines are taken back in TestAStormOfInterruptions")

// bound is how long the size may be out of bounds.
const bound = 60 * time.Second

// watcher looks at a world every second, and fails when what must hold does not.
type watcher struct {
	w *world
	// lacking has a time for each machine too few or too many: since when. The first is made up for first.
	lacking []time.Time
	bought  int
	longest time.Duration
}

func (c *watcher) look() {
	c.w.Helper()
	pool, now := c.w.pool(), c.w.clock.Now()
	bought := map[string]string{}
	for _, m := range c.w.cloud.Machines() {
		if other := bought[m.Name]; other != "" {
			c.w.Fatalf("machine %s was bought twice: %s and %s", m.Name, other, m.ID)
		}
		bought[m.Name] = m.ID
	}
	leaving := map[string]bool{}
	for _, m := range pool.Status.Machines {
		leaving[m.Instance] = m.Leaving != nil
	}
	size := 0
	for _, m := range c.w.staying() {
		if !leaving[m.ID] {
			size++
		}
	}
	lacks := max(int(pool.Spec.Minimum)-size, size-int(pool.Spec.Maximum), 0)
	gained := len(bought) - c.bought
	c.bought = len(bought)
	c.lacking = c.lacking[min(max(gained, 0), len(c.lacking)):]
	for len(c.lacking) < lacks {
		c.lacking = append(c.lacking, now)
	}
	c.lacking = c.lacking[len(c.lacking)-lacks:]
	if lacks == 0 {
		return
	}
	took := now.Sub(c.lacking[0])
	c.longest = max(c.longest, took)
	if took > bound {
		text, _ := json.MarshalIndent(pool.Status, "", " ")
		c.w.Fatalf("%d machines for %s, want %d to %d:\n%s\n%s", size, took, pool.Spec.Minimum, pool.Spec.Maximum, text,
			strings.Join(c.w.events.all()[max(0, len(c.w.events.all())-30):], "\n"))
	}
}

// TestAStormOfInterruptions takes machines back, with and without a notice, while calls are throttled, fail and lose
// their answers, zones are sold out, sizes change, and the controller is killed at any of its calls.
func TestAStormOfInterruptions(t *testing.T) {
	t.Parallel()
	const seeds = 8
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			storm(t, seed, *interruptions/seeds)
		})
	}
}

func storm(t *testing.T, seed uint64, count int) {
	t.Helper()
	w := newWorld(t, seed, nil)
	w.cloud.Lag = time.Duration(seed%4) * 5 * time.Second
	check := &watcher{w: w}
	kills := 0
	for done := 0; done < count; {
		switch what := w.random.IntN(600); {
		case what < 30:
			for range 1 + w.random.IntN(3) {
				if machines := w.staying(); len(machines) > 0 {
					notice := []time.Duration{0, 30 * time.Second, 120 * time.Second}[w.random.IntN(3)]
					w.cloud.Interrupt(machines[w.random.IntN(len(machines))].ID, notice)
					done++
				}
			}
		case what < 58:
			w.begin(&fuse{left: w.random.IntN(25), after: w.random.IntN(2) == 0})
			kills++
		case what < 76:
			w.cloud.Set(fakecloud.Faults{Throttle: 0.1 * w.random.Float64(), LoseBefore: 0.1 * w.random.Float64(), LoseAfter: 0.1 * w.random.Float64()})
		case what < 93:
			offer := w.random.IntN(3) // the fourth is to be had at any time
			w.cloud.Stock([]string{"GN10", "GN10", "GN8"}[offer], []string{"a", "b", "a"}[offer], w.random.IntN(3))
		case what < 110:
			w.cloud.Restock()
		case what < 112:
			least := int32(2 + w.random.IntN(4))
			w.change(func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = least, least+int32(w.random.IntN(5)) })
		}
		w.second()
		check.look()
	}
	t.Logf("seed %d: %d machines bought, %d kills, out of bounds for %s at most", seed, len(w.cloud.Machines()), kills, check.longest)
	w.leavesNothing()
	w.showsNoSecret()
}

// leavesNothing deletes the SpotPool, and makes sure that it leaves nothing.
func (w *world) leavesNothing() {
	w.Helper()
	if err := w.client.Delete(w.Context(), w.pool()); err != nil {
		w.Fatal(err)
	}
	for range 1200 {
		if w.pool() == nil {
			break
		}
		w.second()
	}
	if pool := w.pool(); pool != nil {
		text, _ := json.MarshalIndent(pool.Status, "", " ")
		w.Fatalf("the SpotPool is still there: %s", text)
	}
	w.run(5 * time.Minute)
	if alive := w.alive(); len(alive) > 0 {
		w.Errorf("it leaves %v", alive)
	}
	var nodes corev1.NodeList
	if err := w.client.List(w.Context(), &nodes); err != nil {
		w.Fatal(err)
	}
	if len(nodes.Items) > 0 {
		w.Errorf("it leaves %d nodes", len(nodes.Items))
	}
}

// showsNoSecret searches all that the controller wrote for the values of Secrets.
func (w *world) showsNoSecret() {
	w.Helper()
	var written []string
	written = append(written, w.events.all()...)
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}, &g8s.SpotPoolList{}} {
		if err := w.client.List(w.Context(), list); err != nil {
			w.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			w.Fatal(err)
		}
		written = append(written, string(text))
	}
	for _, text := range written {
		for _, canary := range []string{canaryID, canaryKey, "canary.Token03"} {
			if strings.Contains(text, canary) {
				w.Errorf("a Secret shows in %s", text)
			}
		}
	}
}
