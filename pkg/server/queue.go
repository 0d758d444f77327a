package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

type queueInput struct {
	Paging
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
	Pool      string `query:"pool" maxLength:"63"`
}

type poolQueueInput struct {
	PoolRef
	Paging
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
}

// QueueList is a page of waiting jobs.
type QueueList Page[queue.Entry]

type queueOutput struct{ Body QueueList }

func (s *Server) queueRoutes() {
	invalid := []int{http.StatusUnprocessableEntity}
	const detail = "In the order in which the scheduler tries them, a line for each pool. Positions count all jobs, of which you are shown " +
		"those that you may see. A job that fits now starts, also when one before it does not fit. `cause` says what else than room " +
		"keeps a job from starting, `reclaims` that others leave for it who borrow what a GPUQuota guarantees to it. `eta` is when it starts if all " +
		"before it use all of their time limits; with a ledger, `earliest` and `latest` are between when it starts with the probability " +
		"`confidence`, by how long jobs like those before it have run. With the cause GPUQuotaReached they are of when others have left enough of the " +
		"quota, too. A job whose pods a quota does not let in has position 0: it is in no line."
	registerRoute(s, route{method: http.MethodGet, path: Root + "/queue", id: "listQueue", tag: "queue",
		summary: "The jobs that wait for GPUs", detail: detail, fails: invalid}, s.listQueue)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/queue/{poolName}", id: "listPoolQueue", tag: "queue",
		summary: "The jobs that wait for GPUs of a pool", detail: detail}, func(ctx context.Context, in *poolQueueInput) (*queueOutput, error) {
		return s.listQueue(ctx, &queueInput{Paging: in.Paging, Namespace: in.Namespace, Pool: in.Pool})
	})
}

func (s *Server) listQueue(ctx context.Context, in *queueInput) (*queueOutput, error) {
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	scope, err := s.jobScope(ctx, view, in.Namespace, view.jobNamespaces)
	if err != nil {
		return nil, err
	}
	leader, err := s.leader.readCached(ctx, s.own, s.options.Now())
	if err != nil {
		return nil, err
	}
	objects, now := *view.Objects, s.options.Now()
	if objects.GPUQuotas, err = s.quotaCache.readCached(ctx, s.own, now); err != nil {
		return nil, err
	}
	line, err := s.buildQueue(ctx, &objects, view.Jobs, leader, now)
	if err != nil {
		return nil, err
	}
	line.ApplyEstimates(s.startEstimates.estimatesFor(ctx, &line, &objects, now), now)
	var visible []queue.Entry
	for _, entry := range line.Entries {
		if scope.Has(entry.Namespace) && (in.Pool == "" || entry.Pool == in.Pool) && (in.Namespace == "" || entry.Namespace == in.Namespace) {
			visible = append(visible, entry)
		}
	}
	list, err := cutPage(in.Paging, visible, queueKey, func(entry queue.Entry) queue.Entry { return entry.LocalizeMessage(languageFrom(ctx)) })
	return &queueOutput{Body: QueueList(list)}, err
}

// buildQueue builds the queue in a slot of the caller: with thousands of jobs this takes a core for a while.
func (s *Server) buildQueue(ctx context.Context, objects *snapshot.Snapshot, jobs []inventory.Job, leader *snapshot.Leader, now time.Time) (queue.Queue, error) {
	leave, err := acquireSlot(ctx, s.budgets.computing, 1)
	if err != nil {
		return queue.Queue{}, err
	}
	defer leave()
	return queue.Build(objects, jobs, leader, now), nil
}

// queueKey orders entries as the queue does: by pool, then by zero-padded position. Entries without a position come last.
func queueKey(entry queue.Entry) string {
	if entry.Position == 0 {
		return strings.Join([]string{entry.Pool, "last", fmt.Sprintf("%020d", entry.Since.UnixNano()), entry.Namespace, entry.Name, entry.Kind}, "\x00")
	}
	return fmt.Sprintf("%s\x00%010d", entry.Pool, entry.Position)
}
