package main

import (
	"errors"

	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/backpressure"
)

// defaultBindings is as many as an API server that takes 10 ms a binding needs for 1,600 pods a second. With more of
// them under way, they only wait for each other there.
const defaultBindings = 16

// pace is how far the scheduler may get ahead of the API server.
type pace struct{ bindings int }

func (p *pace) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&p.bindings, "bindings-in-flight", defaultBindings,
		"How many bindings may be under way when the next pod is taken from the queue. Pods beyond it wait in the queue, "+
			"in order of priority, rather than for the API server. 0 sets no limit")
}

func (p *pace) validate() error {
	if p.bindings < 0 {
		return errors.New("--bindings-in-flight is negative: give a number of bindings, or 0 for no limit")
	}
	return nil
}

func (p *pace) gate() *backpressure.Gate {
	if p.bindings == 0 {
		return nil
	}
	return backpressure.NewGate(p.bindings)
}
