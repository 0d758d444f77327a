package server

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/queue"
)

// leaderFor is how long it is believed who leads the scheduler: a scheduler counts as dead after some seconds.
const leaderFor = time.Second

// leaderOfScheduler is who leads the scheduler, read at most once in [leaderFor] however many lists ask. Every
// authenticated user may read that lease, so it is read with the identity of the server.
type leaderOfScheduler struct {
	mu     sync.Mutex
	leader *inventory.Leader
	until  time.Time
}

// read returns who leads, nil where the server may not know.
func (l *leaderOfScheduler) read(ctx context.Context, own kubernetes.Interface, now time.Time) (*inventory.Leader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) {
		return l.leader, nil
	}
	leader, err := queue.ReadLeader(ctx, own, now)
	if err != nil {
		return nil, err
	}
	l.leader, l.until = leader, now.Add(leaderFor)
	return leader, nil
}
