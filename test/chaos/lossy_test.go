package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
)

// anyMishap befalls half of all bindings. One in twenty is the last that the API server stores before it is away for
// some time.
func anyMishap(random *rand.Rand) mishap {
	all := []mishap{lostRequest, lostAnswer, late, twice, overtaken, broken}
	switch n := random.IntN(20); {
	case n == 0:
		return restart
	case n < 10:
		return all[random.IntN(len(all))]
	}
	return nothing
}

// TestAPIServerThatLosesAnswers has answers lost, delayed and doubled between two schedulers and the API server, which
// goes away now and then, right after it has stored something: then nobody can be asked what became of it.
func TestAPIServerThatLosesAnswers(t *testing.T) {
	proxy := startProxy(t, seed(t), anyMishap)
	replicas, load := startReplicas(t, proxy.flags()...), newLoad(t)
	for range *losses {
		submitted := load.begin(20)
		submitted()
		before := len(load.recorder.History().Bindings())
		submitted = load.submitting(20)
		submitted()
		load.bound(before, 1)
	}
	load.judge()
	happened := proxy.happened()
	t.Logf("bindings: %v", happened)
	if *losses > 1 && (happened[lostAnswer] == 0 || happened[overtaken] == 0 || happened[restart] == 0) {
		t.Errorf("too little went wrong to show anything: %v", happened)
	}
	for _, process := range replicas.processes {
		if insisted := count(t, process, logInsists); insisted > 0 {
			t.Logf("%s asked %d times what became of a binding", process.Name(), insisted)
		}
	}
}

// TestLeaderThatIsKilledWhileAnswersAreLost has the next leader find what the old one could not be told.
func TestLeaderThatIsKilledWhileAnswersAreLost(t *testing.T) {
	proxy := startProxy(t, seed(t), anyMishap)
	replicas, load := startReplicas(t, proxy.flags()...), newLoad(t)
	for range max(*losses/2, 1) {
		leader := replicas.leader()
		old := epoch(t)
		submitted := load.begin(20)
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		submitted()
		submitted = load.submitting(10)
		load.boundAfter(old)
		submitted()
		if err := replicas.start(); err != nil {
			t.Fatal(err)
		}
	}
	load.judge()
	t.Logf("bindings: %v", proxy.happened())
}

// TestHiccups has the API server away, or hang, for longer and longer: nobody is deposed, and pods are placed again as soon
// as it answers.
func TestHiccups(t *testing.T) {
	bounds.SkipInShort(t)
	proxy := startProxy(t, 1, func(*rand.Rand) mishap { return nothing })
	replicas, load := startReplicas(t, proxy.flags()...), newLoad(t)
	hiccups := []time.Duration{time.Second, 3 * time.Second}
	if *losses > shortLosses {
		hiccups = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second}
	}
	replicas.processes = append(replicas.processes, replicas.leader()) // once there is one
	for how, hiccup := range map[string]func(time.Duration){"is away": proxy.outage, "hangs": proxy.silence} {
		for _, long := range hiccups {
			leads := epoch(t)
			submitted := load.begin(5)
			submitted()
			load.bound(0, len(load.submitted))
			bindings := len(load.recorder.History().Bindings())
			submitted = load.submitting(1)
			hiccup(long)
			back := time.Now()
			submitted()
			submitted = load.submitting(1)
			submitted()
			load.bound(bindings, 1)
			t.Logf("the API server %s for %s: pods are placed again after %.2f s, the leader leads on: %t", how, long, time.Since(back).Seconds(), epoch(t) == leads)
			load.bound(0, len(load.submitted))
			time.Sleep(6 * time.Second) // whoever takes over has done so by now
			if now := epoch(t); now != leads {
				t.Errorf("the API server %s for %s: %s leads, and %s did", how, long, now, leads)
			}
		}
	}
	load.judge()
	for _, process := range replicas.processes {
		if ended(process) {
			t.Errorf("%s has ended\n%s", process.Name(), process.LogTail())
		}
	}
}

func ended(process *sandbox.Process) bool {
	select {
	case <-process.Done():
		return true
	default:
		return false
	}
}

// seed is what chance begins with: another one each time, unless CHAOS_SEED repeats one.
func seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := strings.TrimSpace(os.Getenv("CHAOS_SEED")); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(fmt.Errorf("reading CHAOS_SEED: %w", err))
		}
		seed = given
	}
	t.Logf("to repeat: CHAOS_SEED=%d", seed)
	return seed
}
