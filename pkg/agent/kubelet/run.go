package kubelet

import (
	"context"
	"errors"
	"os"
	"time"
)

const (
	// pollInterval is the interval at which the plugin checks for a restart of kubelet that was not signaled.
	pollInterval = 500 * time.Millisecond
	// askPace is the shortest interval between questions to kubelet about what it offers, when something has changed, and askInterval the longest.
	// All clients of kubelet's PodResources share 100 questions a second.
	askPace     = 100 * time.Millisecond
	askInterval = 5 * time.Second
	// retryDelay is the delay after a session with kubelet has failed.
	retryDelay = 500 * time.Millisecond
	// firstDelay is the delay after kubelet dropped the plugin. It doubles up to droppedDelay while sessions are short.
	firstDelay   = 20 * time.Millisecond
	droppedDelay = 10 * time.Second
	shortSession = time.Minute
	// rivalDelay is the shortest delay after kubelet took another plugin of the resource. Without it the two could replace each other all the time.
	rivalDelay = 5 * time.Second
	// registerTimeout is how long kubelet may take to answer.
	registerTimeout = 5 * time.Second
	// callsTimeout is how long calls of kubelet that are under way may take when the session ends. It retries those of PreStartContainer.
	callsTimeout = 3 * time.Second
	callsPoll    = 10 * time.Millisecond
	// settleDelay is how long a kubelet that drops the plugin as it ends still listens.
	settleDelay = 50 * time.Millisecond
)

// errDropped means that kubelet continues without the plugin. One before 1.36 does so when another plugin of the resource ends, such as the agent
// that this one replaces: kubernetes#121994.
var errDropped = errors.New("kubelet has dropped the plugin")

// Run offers the slots until ctx ends. kubelet empties its folder when it starts: then the plugin serves and registers again. While there is no
// kubelet it waits for one, and while kubelet asks another plugin, for the end of that.
//
// It must be fast. A kubelet that restarts admits existing pods once more, about a second after it has created its socket, and rejects for good those
// with a container that does not run yet, or no longer, unless the slots are back by then.
func (p *Plugin) Run(ctx context.Context) error {
	folder := watchFolder(p.Folder, p.Log)
	defer folder.close()
	for again := firstDelay; ctx.Err() == nil; {
		kubelet, began := statSocket(p.kubeletSocket()), time.Now()
		err := p.serveKubelet(ctx, folder, kubelet)
		var displaced *displacedError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &displaced):
			p.yieldToRival(ctx, folder, &displaced.rival)
			continue
		case err != nil:
			p.Log.Warn("Offering slots to kubelet", "resource", p.Resource, "error", err)
		}
		wait := retryDelay
		if errors.Is(err, errDropped) {
			if time.Since(began) > shortSession {
				again = firstDelay
			}
			wait, again = again, min(2*again, droppedDelay)
		}
		p.waitForKubelet(ctx, folder, kubelet, wait)
	}
	return nil
}

// waitForKubelet returns after some time, or as soon as there is another kubelet than the one before.
func (p *Plugin) waitForKubelet(ctx context.Context, folder *folder, before os.FileInfo, most time.Duration) {
	end := time.After(most)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if now := statSocket(p.kubeletSocket()); now != nil && !sameSocket(before, now) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-folder.changed:
		case <-ticker.C:
		}
	}
}
