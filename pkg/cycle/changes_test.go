package cycle

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestChangesSinceAMark(t *testing.T) {
	type answer struct {
		Nodes []string
		Known bool
	}
	var c Changes
	var often, seldom Mark
	since := func(why string, mark *Mark, want answer) {
		t.Helper()
		nodes, known := c.ChangedSince(mark, 3)
		if diff := cmp.Diff(want, answer{append([]string(nil), nodes...), known}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	note := func(nodes ...string) {
		for _, node := range nodes {
			c.RecordNode(node)
		}
	}
	since("who has never asked knows nothing", &often, answer{})
	since("nothing changed", &often, answer{Known: true})
	note("a", "a", "b")
	since("the snapshot is from before", &often, answer{Known: true})
	c.RecordSnapshot()
	since("one note for what is told twice", &often, answer{Nodes: []string{"a", "b"}, Known: true})
	since("each is told once", &often, answer{Known: true})
	since("another knows nothing of it", &seldom, answer{})
	note("a")
	c.RecordSnapshot()
	note("b")
	c.RecordSnapshot()
	since("several snapshots", &seldom, answer{Nodes: []string{"a", "b"}, Known: true})
	note("c", "d", "e")
	c.RecordSnapshot()
	since("more than one would look at", &often, answer{})
	since("and as before from then on", &often, answer{Known: true})
	for i := range 3 * maxChanges {
		note(fmt.Sprint(i))
		c.RecordSnapshot()
	}
	since("too long ago", &seldom, answer{})
	if len(c.log) > 2*maxChanges {
		t.Errorf("%d changes are remembered, of which %d will do", len(c.log), maxChanges)
	}
	note("a")
	c.RecordSnapshot()
	since("after much was forgotten", &seldom, answer{Nodes: []string{"a"}, Known: true})
	for i := range 3 * maxChanges {
		note(fmt.Sprint(i))
		if len(c.pending) > maxChanges {
			t.Fatalf("%d changes wait for a snapshot that nobody takes", len(c.pending))
		}
	}
	c.RecordSnapshot()
	since("no snapshot was taken for long", &seldom, answer{})
	note("a")
	c.RecordSnapshot()
	since("and as before from then on", &seldom, answer{Nodes: []string{"a"}, Known: true})
	if nodes, known := (*Changes)(nil).ChangedSince(&seldom, 3); known || nodes != nil || seldom != (Mark{}) {
		t.Errorf("nobody notes changes, and they are %v, %v", nodes, known)
	}
}

func TestChangesAreFollowed(t *testing.T) {
	cs := framework.NewCycleState()
	if ReadChanges(cs) != nil {
		t.Error("there are changes that nobody left")
	}
	var c Changes
	WriteChanges(cs, &c)
	if ReadChanges(cs.Clone()) != &c {
		t.Error("the changes are lost")
	}
}
