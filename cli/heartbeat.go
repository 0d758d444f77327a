package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// heartbeatPoll is the interval at which a waiting command checks the cluster, and the timeout of a check.
	heartbeatPoll = 5 * time.Second
	// heartbeatLimit is how long the cluster may be silent before the command gives up.
	heartbeatLimit = time.Minute
)

// heartbeat monitors the cluster during a watch: a watch whose API server is gone retries forever without a message.
type heartbeat struct {
	// ping returns nil if the cluster has answered, whatever the answer.
	ping func(context.Context) error
	// onLost is called when the cluster stops answering, with the duration of the silence; onBack is called when it answers again.
	onLost func(text phrase.Text, silent time.Duration)
	onBack func()
}

// newHeartbeat returns a heartbeat for a cluster. Any answer of the API server counts, including a refusal.
func newHeartbeat(client kubernetes.Interface, lost func(phrase.Text, time.Duration), back func()) *heartbeat {
	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, heartbeatPoll)
		defer cancel()
		err := client.Discovery().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
		if exitCode(err) != exitUnreachable {
			return nil
		}
		return err
	}
	return &heartbeat{ping: ask, onLost: lost, onBack: back}
}

// monitorCluster returns ctx's error when ctx ends, or an error if the cluster was silent for too long.
func (v *heartbeat) monitorCluster(ctx context.Context) error {
	answered, silent := time.Now(), false
	ticker := time.NewTicker(heartbeatPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		err := v.ping(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && silent:
			v.onBack()
			fallthrough
		case err == nil:
			answered, silent = time.Now(), false
		case time.Since(answered) >= heartbeatLimit:
			return phrase.Errorf("the cluster has not answered for %s: %w", heartbeatLimit, err)
		case !silent:
			silent = true
			v.onLost(phrase.Textf("The cluster does not answer; trying again for up to %s", heartbeatLimit), time.Since(answered))
		}
	}
}

// guardWatch runs a watch, and ends it with the heartbeat's error.
func (v *heartbeat) guardWatch(ctx context.Context, watch func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	var gone error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := v.monitorCluster(ctx); ctx.Err() == nil {
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

// watchWithHeartbeat runs a watch under a heartbeat. Problems of either are reported on stderr.
func (f *Factory) watchWithHeartbeat(ctx context.Context, watch func(context.Context, *inventory.Reader) error) error {
	client, err := f.newKubernetesClient()
	if err != nil {
		return err
	}
	say := func(text phrase.Text) { fmt.Fprintln(f.IO.ErrOut, text.Localize(f.outputLanguage())) }
	reader := inventory.NewReader(client).WithLostHandler(f.newStaleReporter(say, say))
	lost := func(text phrase.Text, _ time.Duration) { say(text) }
	return newHeartbeat(client, lost, func() { say(phrase.Textf("The cluster answers again")) }).
		guardWatch(ctx, func(ctx context.Context) error { return watch(ctx, reader) })
}

// newStaleReporter reports when a watch becomes stale, and when it is current again.
func (f *Factory) newStaleReporter(lost, back func(phrase.Text)) func(error) {
	old := false
	return func(err error) {
		switch {
		case err == nil:
			old = false
			back(phrase.Textf("All of it is as it is now again"))
		case !old:
			old = true
			lost(phrase.Textf("What was told may be old, it is as of %s: %s; trying again", f.Now().Format(time.TimeOnly), f.oneLineError(err)))
		}
	}
}

// oneLineError formats an error on one line.
func (f *Factory) oneLineError(err error) string {
	text, _, _ := strings.Cut(errorMessage(err).Localize(f.outputLanguage()), "\n")
	return oneLine(text)
}
