// Package cyclestate reads what a plugin stored earlier in the same scheduling cycle.
package cyclestate

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
