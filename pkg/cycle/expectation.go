package cycle

import (
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

const expectationKey fwk.StateKey = "Expectation"

// Expectation is the forecast of pods by which the scoring plugin scores nodes for a pod, for the plugin that keeps nodes for some of the
// expected pods. It never changes, so clones of a state share it.
type Expectation struct {
	Forecasts *fragmentation.Forecasts
	// Asked is the pod's request.
	Asked fragmentation.PodRequest
	// KeepPerMille is how many nodes to keep whole, per thousand worth keeping.
	KeepPerMille int64
}

// Clone implements fwk.StateData.
func (e *Expectation) Clone() fwk.StateData { return e }

// WriteExpectation stores an expectation in the state of a cycle.
func WriteExpectation(cs fwk.CycleState, e *Expectation) { cs.Write(expectationKey, e) }

// ReadExpectation returns the stored expectation, nil if there is none: not all strategies use forecasts.
func ReadExpectation(cs fwk.CycleState) *Expectation {
	e, err := Read[*Expectation](cs, expectationKey)
	if err != nil {
		return nil
	}
	return e
}
