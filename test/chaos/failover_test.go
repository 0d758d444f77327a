package chaos

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
)

// How long pods may wait for the next leader: after a crash, and when the old one hands over.
var (
	afterCrash    = bounds.Of(5 * time.Second)
	afterHandover = bounds.Of(3 * time.Second)
)

// TestKilledLeader kills the leader in the middle of its work.
func TestKilledLeader(t *testing.T) {
	check(t, replaceLeader(t, *kills, (*sandbox.Process).Kill), afterCrash)
}

// TestTerminatedLeader ends the leader as an update or a drain of its node does.
func TestTerminatedLeader(t *testing.T) {
	check(t, replaceLeader(t, min(*kills, 5), (*sandbox.Process).Stop), afterHandover)
}

// replaceLeader ends the leader again and again while pods are placed, and returns how long each end kept the pods
// waiting.
func replaceLeader(t *testing.T, rounds int, end func(*sandbox.Process) error) []time.Duration {
	t.Helper()
	replicas, load := startReplicas(t), newLoad(t)
	var waits []time.Duration
	for range rounds {
		leader := replicas.leader()
		old := epoch(t)
		submitted := load.begin(40)
		ended := time.Now()
		if err := end(leader); err != nil {
			t.Fatal(err)
		}
		submitted()
		submitted = load.submitting(10) // the leader may have placed all the others
		restarted := make(chan error, 1)
		go func() { restarted <- replicas.start() }()
		waits = append(waits, load.boundAfter(old).Seen.Sub(ended))
		submitted()
		if err := <-restarted; err != nil {
			t.Fatal(err)
		}
	}
	load.judge()
	return waits
}

func check(t *testing.T, waits []time.Duration, limit time.Duration) {
	t.Helper()
	report(t, "from the leader's end to the next one's first binding", waits)
	for i, wait := range waits {
		if wait > limit {
			t.Errorf("end %d: the next pod was bound after %s, want at most %s", i+1, wait, limit)
		}
	}
}

// TestStoppedLeader stops the leader in the middle of its work until another leads, and lets it go on where it was: in
// every other round while the new leader still waits, which is when a late binding would be seen in time, and else
// while both want to place the same pods.
func TestStoppedLeader(t *testing.T) {
	needsPolicies(t)
	replicas, load := startReplicas(t), newLoad(t)
	var waits, ends []time.Duration
	refused := 0
	for round := range *stops {
		leader := replicas.leader()
		old := epoch(t)
		submitted := load.begin(20)
		if err := leader.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		stopped := time.Now()
		submitted()
		load.submitting(15)() // the leader may have placed all the others
		awaitOtherEpoch(t, old)
		if round%2 == 1 {
			load.boundAfter(old)
		}
		submitted = load.submitting(15)
		if err := leader.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, awaitEnd(t, leader))
		waits = append(waits, load.boundAfter(old).Seen.Sub(stopped))
		submitted()
		refused += count(t, leader, logRefused)
		if err := replicas.start(); err != nil {
			t.Fatal(err)
		}
	}
	load.judge()
	report(t, "from the stop to the next leader's first binding", waits)
	report(t, "from the continuation to the old leader's end", ends)
	t.Logf("%d bindings of old leaders were refused", refused)
	if refused == 0 {
		t.Error("the API server refused no binding, so nothing shows that there is a fence")
	}
}

// begin begins to submit pods, and returns when the first of them is placed. The function it returns waits
// until all of them are submitted.
func (l *load) begin(count int) (submitted func()) {
	l.Helper()
	bindings := len(l.recorder.History().Bindings())
	submitted = l.submitting(count)
	l.bound(bindings, 1)
	return submitted
}

// awaitEnd waits until a process has ended by itself, and returns how long that took.
func awaitEnd(t *testing.T, process *sandbox.Process) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-process.Done():
	case <-time.After(patience):
		t.Fatalf("%s runs on", process.Name())
	}
	return time.Since(began)
}

func report(t *testing.T, what string, durations []time.Duration) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(durations))
	if len(sorted) == 0 {
		return
	}
	var all []string
	for _, d := range sorted {
		all = append(all, strconv.FormatFloat(d.Seconds(), 'f', 2, 64))
	}
	t.Logf("%s, seconds: median %s, most %s of %s", what, all[len(all)/2], all[len(all)-1], strings.Join(all, " "))
}

// termOf is the number of a leadership.
func termOf(t *testing.T, epoch string) int {
	t.Helper()
	term, err := strconv.Atoi(epoch[strings.LastIndexByte(epoch, '/')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return term
}
