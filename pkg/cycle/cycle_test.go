package cycle_test

import (
	"errors"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

type number int

func (n number) Clone() fwk.StateData { return n }

type word string

func (w word) Clone() fwk.StateData { return w }

func TestRead(t *testing.T) {
	state := framework.NewCycleState()
	state.Write("number", number(7))

	if got, err := cycle.Read[number](state, "number"); err != nil || got != 7 {
		t.Errorf("Read of what was written = %v, %v, want 7", got, err)
	}
	if _, err := cycle.Read[number](state, "absent"); !errors.Is(err, fwk.ErrNotFound) {
		t.Errorf("Read of an absent key: %v, want %v", err, fwk.ErrNotFound)
	}
	if got, err := cycle.Read[word](state, "number"); err == nil {
		t.Errorf("Read as another type = %q, want an error", got)
	}
}
