package cli

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
)

const (
	// vigilPoll is how often a command that waits asks whether the cluster is still there, and how long an answer may take.
	vigilPoll = 5 * time.Second
	// vigilLimit is how long the cluster may be silent before the command gives up.
	vigilLimit = time.Minute
)

// vigil looks after a watch: one whose API server is gone tries again for ever, and says nothing.
type vigil struct {
	// ask is nil if the cluster has answered, whatever it said.
	ask func(context.Context) error
	// lost is called when the cluster does not answer, and back when it does so again.
	lost func(text string)
	back func()
}

// newVigil returns a vigil over a cluster. An answer of the API server counts, also that it refuses to answer.
func newVigil(client kubernetes.Interface, lost func(string), back func()) *vigil {
	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, vigilPoll)
		defer cancel()
		err := client.Discovery().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
		if exitCode(err) != exitUnreachable {
			return nil
		}
		return err
	}
	return &vigil{ask: ask, lost: lost, back: back}
}

// keep returns ctx's error when that ends, or that the cluster is unreachable once it was silent for too long.
func (v *vigil) keep(ctx context.Context) error {
	answered, silent := time.Now(), false
	ticker := time.NewTicker(vigilPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		err := v.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && silent:
			v.back()
			fallthrough
		case err == nil:
			answered, silent = time.Now(), false
		case time.Since(answered) >= vigilLimit:
			return fmt.Errorf("the cluster has not answered for %s: %w", vigilLimit, err)
		case !silent:
			silent = true
			v.lost(fmt.Sprintf("The cluster does not answer; trying again for up to %s", vigilLimit))
		}
	}
}

// over runs a watch, and ends it with the vigil's error.
func (v *vigil) over(ctx context.Context, watch func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	var gone error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := v.keep(ctx); ctx.Err() == nil {
			gone = err
			end()
		}
	}()
	err := watch(ctx)
	end()
	<-done
	if gone != nil {
		return gone
	}
	return err
}

// watched runs a watch under a vigil that speaks on stderr.
func (f *Factory) watched(ctx context.Context, watch func(context.Context) error) error {
	client, err := f.kubernetes()
	if err != nil {
		return err
	}
	say := func(text string) { fmt.Fprintln(f.IO.ErrOut, text) }
	return newVigil(client, say, func() { say("The cluster answers again") }).over(ctx, watch)
}
