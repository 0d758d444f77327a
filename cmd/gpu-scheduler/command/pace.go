package command

import (
	"errors"

	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/backpressure"
)

// defaultBindings bounds what the scheduler learns: a remote API server that takes 50 ms a binding can process 2,500 a second with it.
const defaultBindings = 128

// bindingPace is how far the scheduler may get ahead of the API server.
type bindingPace struct{ bindings int }

func (p *bindingPace) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&p.bindings, "bindings-in-flight", defaultBindings,
		"How many bindings may be under way at most when the next pod is taken from the queue. Fewer may where more only wait for each "+
			"other in the API server: pods wait in the queue instead, in order of priority. 0 sets no limit")
}

func (p *bindingPace) validateFlags() error {
	if p.bindings < 0 {
		return errors.New("--bindings-in-flight is negative: give a number of bindings, or 0 for no limit")
	}
	return nil
}

func (p *bindingPace) newGate() *backpressure.Gate {
	if p.bindings == 0 {
		return nil
	}
	return backpressure.NewGate(p.bindings)
}
