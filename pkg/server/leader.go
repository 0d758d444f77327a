package server

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// leaderCacheTTL is how long the scheduler's leader is cached. A scheduler counts as dead after some seconds.
const leaderCacheTTL = time.Second

// leaderCache caches the scheduler's leader and reads it at most once per [leaderCacheTTL]. Every authenticated user may read that lease, so it
// is read with the server's identity.
type leaderCache struct {
	mu     sync.Mutex
	leader *snapshot.Leader
	until  time.Time
}

// readCached returns the leader; nil if the server may not read the lease.
func (l *leaderCache) readCached(ctx context.Context, own kubernetes.Interface, now time.Time) (*snapshot.Leader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) {
		return l.leader, nil
	}
	read, err := snapshot.Read(ctx, own, snapshot.Lease().IfAllowed(), snapshot.Clock(now))
	if err != nil {
		return nil, err
	}
	l.leader, l.until = read.Leader(), now.Add(leaderCacheTTL)
	return l.leader, nil
}
