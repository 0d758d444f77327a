package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/feed"
)

// watchJobs sends all jobs and then every change.
func (s *Server) watchJobs(ctx context.Context, in *jobListInput) (*huma.StreamResponse, error) {
	watcher := &jobWatcher{server: s, filter: in.JobFilter, shown: map[string]bool{}}
	may := func(ctx context.Context) error {
		_, err := watcher.visible(ctx)
		return err
	}
	return s.streaming(ctx, may, func(ctx context.Context, out *stream) error {
		watcher.out = out
		return watcher.run(ctx, in.LastID)
	})
}

// jobWatcher is one client's watch.
type jobWatcher struct {
	server *Server
	filter JobFilter
	out    *stream
	// shown are the jobs that the client knows. A job that stops matching is sent as deleted.
	shown map[string]bool
	seq   uint64
	// resuming is set until a reconnected client has the changes that it missed. The server does not know what the client was shown before and
	// assumes everything: an extra deletion does no harm.
	resuming bool
}

// run sends the changes that the client missed, or all jobs, and then streams changes until ctx ends. It checks the caller's rights with every batch
// of changes.
func (w *jobWatcher) run(ctx context.Context, lastID string) error {
	w.seq, w.resuming = w.server.mirror.jobs.Parse(lastID)
	if !w.resuming {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	for {
		changes, renewed, ok := w.server.mirror.jobs.Since(w.seq)
		if !ok {
			if err := w.begin(ctx); err != nil {
				return err
			}
			continue
		}
		if err := w.sendChanges(ctx, changes); err != nil {
			return err
		}
		if err := w.wait(ctx, renewed); err != nil {
			return err
		}
	}
}

// begin sends all jobs.
func (w *jobWatcher) begin(ctx context.Context) error {
	jobs, seq := w.server.mirror.jobs.Now()
	visible, err := w.visible(ctx)
	if err != nil {
		return err
	}
	w.seq, w.shown, w.resuming = seq, map[string]bool{}, false
	if err := w.out.send("reset", "", struct{}{}); err != nil {
		return err
	}
	slices.SortFunc(jobs, func(a, b *inventory.Job) int { return strings.Compare(jobKey(a), jobKey(b)) })
	for _, job := range jobs {
		if !visible(job) || !w.filter.matches(job) {
			continue
		}
		w.shown[jobKey(job)] = true
		if err := w.out.send(string(feed.Added), "", jobItem(job, w.server.options.Now())); err != nil {
			return err
		}
	}
	return w.out.send("synced", w.server.mirror.jobs.ID(seq), struct{}{})
}

func (w *jobWatcher) sendChanges(ctx context.Context, changes []feed.Change) error {
	if w.resuming {
		defer w.assumeShown()
	}
	if len(changes) == 0 {
		return nil
	}
	visible, err := w.visible(ctx)
	if err != nil {
		return err
	}
	for _, change := range changes {
		w.seq = change.Seq
		what := w.judge(&change, visible(change.Job))
		if what == "" {
			continue
		}
		item := jobItem(change.Job, w.server.options.Now())
		if err := w.out.send(string(what), w.server.mirror.jobs.ID(change.Seq), item); err != nil {
			return err
		}
	}
	return nil
}

// judge returns what a change means for this client: a job that starts to match is added, one that stops matching is deleted.
func (w *jobWatcher) judge(change *feed.Change, visible bool) feed.Type {
	key := jobKey(change.Job)
	before := w.shown[key] || w.resuming && change.Type != feed.Added
	now := visible && w.filter.matches(change.Job) && change.Type != feed.Deleted
	w.shown[key] = now
	switch {
	case now && before && change.Type != feed.Added:
		return feed.Modified
	case now:
		return feed.Added
	}
	delete(w.shown, key)
	if before && visible {
		return feed.Deleted
	}
	return ""
}

// assumeShown ends resuming: the client now knows all jobs that match.
func (w *jobWatcher) assumeShown() {
	w.resuming = false
	jobs, _ := w.server.mirror.jobs.Now()
	for _, job := range jobs {
		if w.filter.matches(job) {
			w.shown[jobKey(job)] = true
		}
	}
}

// visible returns which jobs the caller may see at the moment.
func (w *jobWatcher) visible(ctx context.Context) (func(*inventory.Job) bool, error) {
	view, err := w.server.mirror.view()
	if err != nil {
		return nil, err
	}
	scope, err := w.server.jobScope(ctx, view, w.filter.Namespace)
	return func(job *inventory.Job) bool { return scope.Has(job.Namespace) }, err
}

func (w *jobWatcher) wait(ctx context.Context, renewed <-chan struct{}) error {
	tick := time.NewTimer(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-renewed:
			return nil
		case <-tick.C:
			if err := w.out.beat(); err != nil {
				return err
			}
			tick.Reset(heartbeat)
		}
	}
}
