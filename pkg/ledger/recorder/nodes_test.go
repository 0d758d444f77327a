package recorder

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/test/fixture"
)

// TestNodesThatAreGoneAreForgotten after a while, unless they come back: machines of clouds come and go under ever new names.
func TestNodesThatAreGoneAreForgotten(t *testing.T) {
	var n nodes
	tell := func(second int, gone bool, name string) {
		list, point := changes(second, gone, fixture.Node(name).GPUs(8, "A").Obj())
		if err := n.HandleChanges(list, point); err != nil {
			t.Fatal(err)
		}
	}
	n.ready = make(chan struct{})
	_, point := changes(0, false)
	if err := n.HandleList([]metav1.Object{fixture.Node("stays").GPUs(8, "A").Obj()}, at(0), point); err != nil {
		t.Fatal(err)
	}
	tell(1, true, "back")
	tell(2, false, "back")
	const minute, day = 60, 86400
	for second := minute; second <= day; second += minute {
		name := fmt.Sprintf("spot-%d", second)
		tell(second, false, name)
		tell(second, true, name)
		if n.getNode(name) == nil {
			t.Fatalf("%s is forgotten before its pods have ended", name)
		}
	}
	if n.getNode("stays") == nil || n.getNode("back") == nil {
		t.Error("nodes are forgotten that are there")
	}
	if got := len(n.known); got > 65 {
		t.Errorf("%d nodes are remembered after a day in which each lived for a minute, want 2 and those of an hour", got)
	}
}
