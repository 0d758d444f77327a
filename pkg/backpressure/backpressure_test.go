package backpressure

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestTheGateOpensWhenABindingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		g.Begin()
		g.Wait() // room for one more
		g.Begin()
		g.Begin() // what is decided is bound, also beyond the limit
		passed := false
		var waiting sync.WaitGroup
		waiting.Go(func() {
			g.Wait()
			passed = true
		})
		synctest.Wait()
		g.End()
		synctest.Wait()
		if passed {
			t.Error("the gate is open with 2 of 2 bindings under way")
		}
		g.End()
		waiting.Wait()
	})
}

func TestNoGateIsOpen(*testing.T) {
	var g *Gate
	g.Begin()
	g.Wait()
	g.End()
	NewGate(0).Wait() // a limit of none would never open
}
