package notify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// office is a Sender whose receivers are functions, and what became of its letters.
type office struct {
	*Sender
	mu      sync.Mutex
	settled []string
	// calls are how channels fared, call by call.
	calls map[string][]string
}

func (o *office) called(channel string, outcome Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[channel] = append(o.calls[channel], outcome.Why)
}

// open returns an office whose channels lead to URLs of their names.
func open(post func(url string) Outcome) *office {
	o := &office{calls: map[string][]string{}}
	o.Sender = &Sender{
		Clock:   clock.RealClock{},
		Address: func(_ context.Context, channel, _ string) (string, Outcome) { return channel, Outcome{} },
		Post:    func(_ context.Context, url string, _ []byte) Outcome { return post(url) },
		OnCall:  func(channel string, outcome Outcome) { o.called(channel, outcome) },
		OnSettled: func(_ context.Context, letter *Notification, outcome Outcome) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.settled = append(o.settled, strings.TrimSuffix(letter.Job.String()+": "+outcome.Why, ": "))
		},
	}
	return o
}

func (o *office) got() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.settled)
}

func letter(channel, namespace, name string) *Notification {
	return &Notification{Channel: channel, Job: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID(namespace + name), Word: "failed"}
}

// TestADeadReceiverDelaysNobodyElse: what is for others goes out while letters to it wait, and these are given up in the end.
func TestADeadReceiverDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(func(url string) Outcome {
			if url == "dead" {
				time.Sleep(postTimeout)
				return Outcome{Why: "it did not answer in time", Again: true}
			}
			return Outcome{}
		})
		for i := range 20 {
			o.Enqueue(t.Context(), letter("dead", "a", fmt.Sprint(i)))
		}
		o.Enqueue(t.Context(), letter("well", "a", "x"))
		time.Sleep(time.Millisecond)
		if got := o.got(); !slices.Equal(got, []string{"a/x"}) {
			t.Errorf("at once it settled %v, want what is for the one that answers", got)
		}
		time.Sleep(2 * deliveryTimeout)
		if got := o.got(); len(got) != 21 || got[1] != "a/0: it did not answer in time" {
			t.Errorf("in the end it settled %d: %v, want all 21", len(got), got)
		}
		o.Close()
	})
}

// TestALetterIsTriedAgain until it is taken, and not when that is of no use.
func TestALetterIsTriedAgain(t *testing.T) {
	tests := map[string]struct {
		answers []Outcome
		want    string
		calls   int
	}{
		"taken at once":          {answers: []Outcome{{}}, want: "a/x", calls: 1},
		"taken the third time":   {answers: []Outcome{{Why: "it answered 500", Again: true}, {Why: "it answered 429", Again: true}, {}}, want: "a/x", calls: 3},
		"refused for good":       {answers: []Outcome{{Why: "it answered 404"}}, want: "a/x: it answered 404", calls: 1},
		"a receiver that is ill": {answers: slices.Repeat([]Outcome{{Why: "it answered 500", Again: true}}, 100), want: "a/x: it answered 500", calls: 19},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				o := open(func(string) Outcome { calls++; return tc.answers[calls-1] })
				o.Enqueue(t.Context(), letter("c", "a", "x"))
				time.Sleep(2 * deliveryTimeout)
				if got := o.got(); !slices.Equal(got, []string{tc.want}) || calls != tc.calls {
					t.Errorf("got %v after %d calls, want %q after %d", got, calls, tc.want, tc.calls)
				}
				o.Close()
			})
		})
	}
}

// TestNamespacesTakeTurns, so that one with many jobs does not keep the others waiting, nor fill the line.
func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(func(string) Outcome { return Outcome{} })
		refused := 0
		for i := range maxPerNamespace + 5 {
			if !o.Enqueue(t.Context(), letter("c", "busy", fmt.Sprint(i))) {
				refused++
			}
		}
		o.Enqueue(t.Context(), letter("c", "calm", "x"))
		time.Sleep(3 * sendInterval)
		if at := slices.Index(o.got(), "calm/x"); at < 0 || at > 2 {
			t.Errorf("the other namespace is number %d of %v", at, o.got())
		}
		if refused < 4 || refused > 5 { // one may be under way already
			t.Errorf("%d letters were refused, want those beyond %d", refused, maxPerNamespace)
		}
		time.Sleep(2 * maxPerNamespace * sendInterval)
		if !o.Enqueue(t.Context(), letter("c", "busy", "again")) {
			t.Error("there is no room when the line is empty")
		}
		time.Sleep(time.Minute)
		o.Close()
	})
}

// TestALetterIsSentOnce however often it is offered, also by who has not seen yet that it was settled.
func TestALetterIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		o := open(func(string) Outcome { calls++; time.Sleep(time.Second); return Outcome{} })
		for range 10 {
			o.Enqueue(t.Context(), letter("c", "a", "x"))
			time.Sleep(300 * time.Millisecond)
		}
		synctest.Wait()
		if calls != 1 {
			t.Errorf("it was sent %d times, want once", calls)
		}
		time.Sleep(2 * settledTTL)
		o.Enqueue(t.Context(), letter("c", "a", "y")) // which has those forgotten of which the time has come
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(o.known) != 1 {
			t.Errorf("%d letters are remembered, want the last", len(o.known))
		}
		o.Close()
	})
}

// TestWhatIsUnderWayEndsWithTheLeadership and is not settled: the next leader sends it.
func TestWhatIsUnderWayEndsWithTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(func(string) Outcome { return Outcome{Why: "it answered 500", Again: true} })
		ctx, end := context.WithCancel(t.Context())
		o.Enqueue(ctx, letter("c", "a", "x"))
		time.Sleep(time.Second)
		end()
		o.Close()
		o.Enqueue(ctx, letter("c", "a", "y"))
		synctest.Wait()
		if got := o.got(); len(got) != 0 {
			t.Errorf("it settled %v, want nothing", got)
		}
	})
}

// TestEveryCallCounts of a channel that there is, also one that administrators gave no URL; a name that is none does not.
func TestEveryCallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []Outcome{{Why: "it answered 500", Again: true}, {}}
		o := open(func(string) Outcome { answer := answers[0]; answers = answers[1:]; return answer })
		o.Address = func(_ context.Context, channel, _ string) (string, Outcome) {
			return channel, map[string]Outcome{"unset": {Why: "the channel has no URL", Unset: true}, "slip": {Why: "there is no channel"}}[channel]
		}
		for _, channel := range []string{"well", "unset", "slip"} {
			o.Enqueue(t.Context(), letter(channel, "a", channel))
		}
		time.Sleep(time.Minute)
		o.Close()
		want := map[string][]string{"well": {"it answered 500", ""}, "unset": {"the channel has no URL"}}
		if !maps.EqualFunc(o.calls, want, slices.Equal) || len(o.got()) != 3 {
			t.Errorf("calls were %v, want %v; settled are %v", o.calls, want, o.got())
		}
	})
}
