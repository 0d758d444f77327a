// Package cycle is the state that the plugins share during one scheduling cycle, since they do not import each other: the number of the attempt,
// which nodes have changed since earlier ones, the plan by which a gang is bound, and the scores of the candidates, from the plugin that scores
// to the one that records. Package shortlist has the nodes that are tried first.
package cycle

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// Read returns the value stored under key. The error says what is missing or what other type is there;
// both mean that an earlier extension point of the plugin did not run.
func Read[T fwk.StateData](state fwk.CycleState, key fwk.StateKey) (T, error) {
	data, err := state.Read(key)
	if err != nil {
		var none T
		return none, fmt.Errorf("reading %q from the cycle state: %w", key, err)
	}
	value, ok := data.(T)
	if !ok {
		return value, fmt.Errorf("reading %q from the cycle state: found %T, want %T", key, data, value)
	}
	return value, nil
}
