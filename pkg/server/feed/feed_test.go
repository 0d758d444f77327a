package feed

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func job(name string, status inventory.Status) inventory.Job {
	return inventory.Job{Namespace: "team", Kind: "training", Name: name, Status: status}
}

func TestChangesAreTheDifferenceOfStates(t *testing.T) {
	f := New()
	f.Publish([]inventory.Job{job("a", "Pending"), job("b", "Pending")})
	f.Publish([]inventory.Job{job("a", "Running"), job("b", "Pending")})
	f.Publish([]inventory.Job{job("a", "Running")})
	changes, _, ok := f.Since(0)
	if !ok {
		t.Fatal("the changes are gone")
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%d %s %s %s", c.Seq, c.Type, c.Job.Name, c.Job.Status))
	}
	want := []string{"1 added a Pending", "2 added b Pending", "3 modified a Running", "4 deleted b Pending"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if rest, _, ok := f.Since(3); !ok || len(rest) != 1 {
		t.Errorf("after the third come %v", rest)
	}
}

func TestAWatcherThatWasAwayTooLongBeginsAnew(t *testing.T) {
	f := New()
	for i := range 2*kept + 2 {
		f.Publish([]inventory.Job{job("a", inventory.Status(fmt.Sprint(i)))})
	}
	if _, _, ok := f.Since(1); ok {
		t.Error("changes that are no longer kept were given")
	}
	if changes, _, ok := f.Since(2*kept + 1); !ok || len(changes) != 1 {
		t.Errorf("the last change is %v", changes)
	}
	if _, _, ok := f.Since(1 << 60); ok {
		t.Error("a number that was never given was accepted")
	}
}

func TestWhatWaitsIsWokenByAChangeAlone(t *testing.T) {
	f := New()
	f.Publish([]inventory.Job{job("a", "Pending")})
	_, renewed, _ := f.Since(1)
	f.Publish([]inventory.Job{job("a", "Pending")})
	select {
	case <-renewed:
		t.Error("nothing changed")
	default:
	}
	f.Publish(nil)
	select {
	case <-renewed:
	default:
		t.Error("a deletion woke nobody")
	}
}

func TestIdentitiesOfAnotherProcessMeanNothing(t *testing.T) {
	f := New()
	if seq, ok := f.Parse(f.ID(7)); !ok || seq != 7 {
		t.Errorf("got %d, %t", seq, ok)
	}
	for _, id := range []string{"", "7", New().ID(7), f.ID(7) + "x"} {
		if _, ok := f.Parse(id); ok {
			t.Errorf("%q was accepted", id)
		}
	}
}
