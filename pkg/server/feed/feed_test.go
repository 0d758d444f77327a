package feed

import (
	"fmt"
	"runtime"
	"strings"
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
	changes, _, ok := f.ChangesSince(0)
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
	if rest, _, ok := f.ChangesSince(3); !ok || len(rest) != 1 {
		t.Errorf("after the third come %v", rest)
	}
}

func TestAWatcherThatWasAwayTooLongBeginsAnew(t *testing.T) {
	f := New()
	for i := range 2*maxChanges + 2 {
		f.Publish([]inventory.Job{job("a", inventory.Status(fmt.Sprint(i)))})
	}
	if _, _, ok := f.ChangesSince(1); ok {
		t.Error("changes that are no longer kept were given")
	}
	if changes, _, ok := f.ChangesSince(2*maxChanges + 1); !ok || len(changes) != 1 {
		t.Errorf("the last change is %v", changes)
	}
	if _, _, ok := f.ChangesSince(1 << 60); ok {
		t.Error("a number that was never given was accepted")
	}
}

func TestWhatWaitsIsWokenByAChangeAlone(t *testing.T) {
	f := New()
	f.Publish([]inventory.Job{job("a", "Pending")})
	_, renewed, _ := f.ChangesSince(1)
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
	if seq, ok := f.ParseID(f.ID(7)); !ok || seq != 7 {
		t.Errorf("got %d, %t", seq, ok)
	}
	for _, id := range []string{"", "7", New().ID(7), f.ID(7) + "x"} {
		if _, ok := f.ParseID(id); ok {
			t.Errorf("%q was accepted", id)
		}
	}
}

// scaled is a job of so many pods, as it is after it was scaled for the nth time.
func scaled(n, pods int) inventory.Job {
	out := job("large", "Running")
	out.Ready, out.Message = int32(n), strings.Repeat("m", 200)
	for i := range pods {
		name := fmt.Sprintf("a-node-with-a-name-%d-%d", n, i)
		out.Nodes = append(out.Nodes, name)
		out.Pods = append(out.Pods, inventory.Pod{Name: name, Node: name, IP: "10.0.0.1", Containers: []inventory.ContainerState{{Name: strings.Repeat("m", 200)}}})
	}
	return out
}

// TestChangesTakeSoMuchMemory and no more, however large the job is that changes.
func TestChangesTakeSoMuchMemory(t *testing.T) {
	f := New()
	heap := func() int {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	for n := range 180 {
		f.Publish([]inventory.Job{scaled(n, 300)})
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("180 changes of a job of 300 pods take %d MiB", grown>>20)
	}
	for n := range 3000 {
		f.Publish([]inventory.Job{scaled(n, 300)})
	}
	if grown := heap() - before; grown > 3*maxChangeBytes {
		t.Errorf("all changes take %d MiB", grown>>20)
	}
	sum := 0
	for _, change := range f.changes {
		sum += sizeOf(change.Job)
	}
	if sum != f.bytes || sum > 2*maxChangeBytes {
		t.Errorf("the changes have %d bytes, counted were %d", sum, f.bytes)
	}
	if _, _, ok := f.ChangesSince(f.seq - 10); !ok {
		t.Error("the last changes are gone")
	}
}

// TestManyChangesComeInParts, so that each of many slow readers holds few.
func TestManyChangesComeInParts(t *testing.T) {
	f := New()
	for n := range 2*maxPerRead + 1 {
		f.Publish([]inventory.Job{job("a", inventory.Status(fmt.Sprint(n)))})
	}
	seq := uint64(0)
	for _, want := range []int{maxPerRead, maxPerRead, 1} {
		changes, renewed, ok := f.ChangesSince(seq)
		if !ok || len(changes) != want {
			t.Fatalf("got %d changes, want %d", len(changes), want)
		}
		seq = changes[len(changes)-1].Seq
		select {
		case <-renewed:
			if want == 1 {
				t.Error("there are more, it says, than there are")
			}
		default:
			if want != 1 {
				t.Error("that there are more is not said")
			}
		}
	}
}
