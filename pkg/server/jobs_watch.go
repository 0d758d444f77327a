package server

import (
	"cmp"
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
		_, err := watcher.visibleJobs(ctx, nil)
		return err
	}
	return s.streamResponse(ctx, may, func(ctx context.Context, out *stream) error {
		watcher.out = out
		return watcher.streamEvents(ctx, cmp.Or(in.LastID, in.Since))
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

// streamEvents sends the changes that the client missed, or all jobs, and then streams changes until ctx ends. It checks the caller's rights with every batch
// of changes.
func (w *jobWatcher) streamEvents(ctx context.Context, lastID string) error {
	w.seq, w.resuming = w.server.cache.jobs.ParseID(lastID)
	if !w.resuming {
		if err := w.sendAllJobs(ctx); err != nil {
			return err
		}
	}
	for {
		changes, renewed, ok := w.server.cache.jobs.ChangesSince(w.seq)
		if !ok {
			if err := w.sendAllJobs(ctx); err != nil {
				return err
			}
			continue
		}
		if err := w.sendChanges(ctx, changes); err != nil {
			return err
		}
		if err := w.waitForChanges(ctx, renewed); err != nil {
			return err
		}
	}
}

// sendAllJobs sends all jobs.
func (w *jobWatcher) sendAllJobs(ctx context.Context) error {
	jobs, seq := w.server.cache.jobs.CurrentJobs()
	visible, err := w.visibleJobs(ctx, jobs)
	if err != nil {
		return err
	}
	w.seq, w.shown, w.resuming = seq, map[string]bool{}, false
	if err := w.out.sendEvent("reset", "", struct{}{}); err != nil {
		return err
	}
	slices.SortFunc(jobs, func(a, b *inventory.Job) int { return strings.Compare(jobKey(a), jobKey(b)) })
	for _, job := range jobs {
		if !visible(job) || !w.filter.matchesJob(job) {
			continue
		}
		w.shown[jobKey(job)] = true
		if err := w.out.sendEvent(string(feed.Added), "", jobItem(ctx, job, w.server.options.Now())); err != nil {
			return err
		}
	}
	return w.out.sendEvent("synced", w.server.cache.jobs.ID(seq), struct{}{})
}

func (w *jobWatcher) sendChanges(ctx context.Context, changes []feed.Change) error {
	if w.resuming {
		defer w.assumeShown()
	}
	if len(changes) == 0 {
		return nil
	}
	jobs := make([]*inventory.Job, len(changes))
	for i := range changes {
		jobs[i] = changes[i].Job
	}
	visible, err := w.visibleJobs(ctx, jobs)
	if err != nil {
		return err
	}
	for _, change := range changes {
		w.seq = change.Seq
		what := w.classifyChange(&change, visible(change.Job))
		if what == "" {
			continue
		}
		item := jobItem(ctx, change.Job, w.server.options.Now())
		if err := w.out.sendEvent(string(what), w.server.cache.jobs.ID(change.Seq), item); err != nil {
			return err
		}
	}
	return nil
}

// classifyChange returns what a change means for this client: a job that starts to match is added, one that stops matching is deleted.
func (w *jobWatcher) classifyChange(change *feed.Change, visible bool) feed.Type {
	key := jobKey(change.Job)
	before := w.shown[key] || w.resuming && change.Type != feed.Added
	now := visible && w.filter.matchesJob(change.Job) && change.Type != feed.Deleted
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

// assumeShown ends resuming once the client has all changes: then it knows all jobs that match. Before that it may still know jobs of which the changes
// to come say that they are gone.
func (w *jobWatcher) assumeShown() {
	jobs, seq := w.server.cache.jobs.CurrentJobs()
	if w.seq != seq {
		return
	}
	w.resuming = false
	for _, job := range jobs {
		if w.filter.matchesJob(job) {
			w.shown[jobKey(job)] = true
		}
	}
}

// visibleJobs returns which jobs the caller may see at the moment. It reviews the namespaces of these jobs too: the newest view may be older than they are,
// and not know theirs yet.
func (w *jobWatcher) visibleJobs(ctx context.Context, jobs []*inventory.Job) (func(*inventory.Job) bool, error) {
	view, err := w.server.cache.latestView()
	if err != nil {
		return nil, err
	}
	scope, err := w.server.jobScope(ctx, view, w.filter.Namespace, addNamespaces(view.jobNamespaces, jobs))
	return func(job *inventory.Job) bool { return scope.Has(job.Namespace) }, err
}

// addNamespaces returns sorted namespaces with those of some jobs.
func addNamespaces(known []string, jobs []*inventory.Job) []string {
	out := slices.Clone(known)
	for _, job := range jobs {
		if i, found := slices.BinarySearch(out, job.Namespace); !found {
			out = slices.Insert(out, i, job.Namespace)
		}
	}
	return out
}

func (w *jobWatcher) waitForChanges(ctx context.Context, renewed <-chan struct{}) error {
	tick := time.NewTimer(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-renewed:
			return nil
		case <-tick.C:
			if err := w.out.sendHeartbeat(); err != nil {
				return err
			}
			tick.Reset(heartbeatInterval)
		}
	}
}
