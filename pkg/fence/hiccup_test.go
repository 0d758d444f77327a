package fence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// hiccup runs two electors in synctest's time, has the API server not answer for a while, and returns whether the leader
// leads on, and how long after the first unanswered moment somebody leads who can write.
func hiccup(t *testing.T, in times, long time.Duration, silent func(context.Context) error) (leadsOn bool, until time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		lease := &lease{}
		ctx, stop := context.WithCancel(t.Context())
		_, started, ended := contendWithin(ctx, t, lease, "a", in)
		<-started
		_, startedB, endedB := contendWithin(ctx, t, lease, "b", in)
		time.Sleep(10*time.Second + 70*time.Millisecond)
		lease.mu.Lock()
		lease.silent = silent
		lease.mu.Unlock()
		began := time.Now()
		time.Sleep(long)
		lease.mu.Lock()
		lease.silent = nil
		writes := len(lease.writes)
		lease.mu.Unlock()
		for {
			time.Sleep(10 * time.Millisecond)
			lease.mu.Lock()
			renewed := len(lease.writes) > writes && lease.record.HolderIdentity == "a"
			lease.mu.Unlock()
			select {
			case <-startedB:
				renewed = true
			default:
			}
			if renewed {
				break
			}
		}
		until = time.Since(began)
		time.Sleep(30 * time.Second) // until who loses has noticed
		select {
		case <-ended:
		default:
			leadsOn = true
		}
		stop()
		<-ended
		<-endedB
	})
	return leadsOn, until
}

// TestTheTimesAreThoseThatWeShip holds them against the configuration; cmd/gpu-scheduler has the takeover as a default.
func TestTheTimesAreThoseThatWeShip(t *testing.T) {
	file, err := os.ReadFile("../../manifests/scheduler/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		LeaderElection struct{ LeaseDuration, RenewDeadline, RetryPeriod metav1.Duration }
	}
	if err := yaml.Unmarshal(file, &config); err != nil {
		t.Fatal(err)
	}
	got := config.LeaderElection
	if got.LeaseDuration.Duration != shipped.lease || got.RenewDeadline.Duration != shipped.renew || got.RetryPeriod.Duration != retry {
		t.Errorf("the configuration has %v, the test %v and %s", got, shipped, retry)
	}
}

// The ways in which an API server does not answer.
var silences = map[string]func(context.Context) error{
	"refuses": func(context.Context) error { return errors.New("connection refused") },
	"hangs":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
}

// TestAHiccupDeposesNobody has the API server not answer anybody, for as long as it takes to restart.
func TestAHiccupDeposesNobody(t *testing.T) {
	for _, long := range []time.Duration{time.Second, 2 * time.Second, 2500 * time.Millisecond, 3 * time.Second, 5 * time.Second, 8 * time.Second} {
		for how, silent := range silences {
			t.Run(fmt.Sprintf("it %s for %s", how, long), func(t *testing.T) {
				leadsOn, until := hiccup(t, shipped, long, silent)
				limit := long + time.Second
				if how == "hangs" { // and the last request that hangs is given up
					limit += shipped.takeover * 2 / 3
				}
				if !leadsOn || until > limit {
					t.Errorf("the leader leads on: %t; the lease is written after %s", leadsOn, until)
				}
			})
		}
	}
}

// TestALongSilenceEndsTheLeader: a process that reaches nobody for longer than the election lets it ends, and is started
// afresh.
func TestALongSilenceEndsTheLeader(t *testing.T) {
	if leadsOn, until := hiccup(t, shipped, 20*time.Second, silences["refuses"]); leadsOn || until > 20*time.Second+shipped.takeover+Pause+time.Second {
		t.Errorf("the leader leads on: %t; another leads after %s", leadsOn, until)
	}
}

// TestWhatOtherTimesCost is the trade that docs/failover.md tells of.
func TestWhatOtherTimesCost(t *testing.T) {
	tests := map[string]struct {
		times
		long    time.Duration
		leadsOn bool
	}{
		"3 s and 2 s, which we had, 1 s":   {classic, time.Second, true},
		"3 s and 2 s, which we had, 2.5 s": {classic, 2500 * time.Millisecond, false},
		"3 s and 2 s, which we had, 5 s":   {classic, 5 * time.Second, false},
		"Kubernetes' own, 5 s":             {stock, 5 * time.Second, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if leadsOn, until := hiccup(t, tc.times, tc.long, silences["refuses"]); leadsOn != tc.leadsOn {
				t.Errorf("the leader leads on: %t, want %t; the lease is written after %s", leadsOn, tc.leadsOn, until)
			}
		})
	}
}

// TestACrashCostsTheTakeover has the leader vanish: it neither renews nor releases.
func TestACrashCostsTheTakeover(t *testing.T) {
	for name, tc := range map[string]struct {
		times
		most time.Duration
	}{
		"as shipped":                {shipped, 5 * time.Second},
		"3 s and 2 s, which we had": {classic, 5 * time.Second},
		"4 s and 3 s":               {longer, 6 * time.Second},
		"Kubernetes' own":           {stock, 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mine := &lease{}
				ctx, stop := context.WithCancel(t.Context())
				_, started, ended := contendWithin(ctx, t, mine, "a", tc.times)
				<-started
				theirs := &lease{}
				mine.mu.Lock()
				theirs.record = mine.record
				mine.mu.Unlock()
				// What a writes from now on, b never sees.
				second, stopSecond := context.WithCancel(t.Context())
				began := time.Now()
				_, startedB, endedB := contendWithin(second, t, theirs, "b", tc.times)
				<-startedB
				if took := time.Since(began); took > tc.most || took < tc.most-2*time.Second {
					t.Errorf("another leads after %s, want at most %s", took, tc.most)
				}
				stop()
				stopSecond()
				<-ended
				<-endedB
			})
		})
	}
}

// slow is an API server that takes so long for each answer.
func slow(answer time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(answer):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestASlowAPIServerGetsALeader has the leader vanish, and every answer to the one that stands by take long.
func TestASlowAPIServerGetsALeader(t *testing.T) {
	for answer, most := range map[time.Duration]time.Duration{
		500 * time.Millisecond:  8 * time.Second,
		1900 * time.Millisecond: 20 * time.Second, // and each pause between two reads makes it a silence
		2500 * time.Millisecond: 25 * time.Second,
		4500 * time.Millisecond: 45 * time.Second,
	} {
		t.Run(answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dead := record("a", 7)
				dead.LeaseDurationSeconds = int(shipped.takeover.Seconds())
				theirs := &lease{record: &dead, silent: slow(answer)}
				ctx, stop := context.WithCancel(t.Context())
				began := time.Now()
				f, started, ended := contendWithin(ctx, t, theirs, "b", shipped)
				select {
				case <-started:
				case <-time.After(5 * time.Minute):
					t.Error("nobody leads after 5 minutes")
				}
				if took := time.Since(began); took > most {
					t.Errorf("another leads after %s, want at most %s", took, most)
				}
				time.Sleep(5 * time.Minute)
				select {
				case <-ended:
					t.Error("it has not kept the lease")
				default:
				}
				if epoch, _ := f.Epoch(); epoch != "b/8" {
					t.Errorf("the epoch is %q, want b/8", epoch)
				}
				stop()
				<-ended
			})
		})
	}
}

// TestASlowAPIServerKeepsItsLeader has every answer to both take long: who leads goes on to lead.
func TestASlowAPIServerKeepsItsLeader(t *testing.T) {
	for _, answer := range []time.Duration{1900 * time.Millisecond, 2500 * time.Millisecond, 4500 * time.Millisecond} {
		t.Run(answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mine := &lease{silent: slow(answer)}
				ctx, stop := context.WithCancel(t.Context())
				_, started, ended := contendWithin(ctx, t, mine, "a", shipped)
				<-started
				_, startedB, endedB := contendWithin(ctx, t, mine, "b", shipped)
				select {
				case <-startedB:
					t.Error("the one that stands by has taken over")
				case <-ended:
					t.Error("the leader has given up")
				case <-time.After(10 * time.Minute):
				}
				stop()
				<-ended
				<-endedB
			})
		})
	}
}
