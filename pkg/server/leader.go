package server

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// leaderFor is how long it is believed who leads the scheduler: a scheduler counts as dead after some seconds.
const leaderFor = time.Second

// leaderOfScheduler is who leads the scheduler, read at most once in [leaderFor] however many lists ask. Every
// authenticated user may read that lease, so it is read with the identity of the server.
type leaderOfScheduler struct {
	mu     sync.Mutex
	leader *snapshot.Leader
	until  time.Time
}

// read returns who leads, nil where the server may not know.
func (l *leaderOfScheduler) read(ctx context.Context, own kubernetes.Interface, now time.Time) (*snapshot.Leader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) {
		return l.leader, nil
	}
	read, err := snapshot.Read(ctx, own, snapshot.Lease().IfAllowed(), snapshot.Clock(now))
	if err != nil {
		return nil, err
	}
	l.leader, l.until = read.Leader(), now.Add(leaderFor)
	return l.leader, nil
}
