package cycle

import (
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

const expectationKey fwk.StateKey = "Expectation"

// Expectation is which pods the plugin that scores expects while it values nodes for a pod, for the plugin that keeps
// nodes for some of them. It never changes, so clones of a state share it.
type Expectation struct {
	Forecasts *fragmentation.Forecasts
	// Asked is what the pod asks for.
	Asked fragmentation.Ask
	// KeepPerMille is how many nodes to keep whole, in a thousand of those worth keeping.
	KeepPerMille int64
}

// Clone implements fwk.StateData.
func (e *Expectation) Clone() fwk.StateData { return e }

// Expect leaves an expectation in the state of a cycle.
func Expect(cs fwk.CycleState, e *Expectation) { cs.Write(expectationKey, e) }

// Expected returns what was left, nil where nothing was: not all strategies ask what pods are to be expected.
func Expected(cs fwk.CycleState) *Expectation {
	e, err := Read[*Expectation](cs, expectationKey)
	if err != nil {
		return nil
	}
	return e
}
