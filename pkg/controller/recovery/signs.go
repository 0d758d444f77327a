package recovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staleAfter is how long all nodes must be silent until that indicates a monitoring failure and says nothing about nodes. Kubelets renew their leases
// every 10 s.
const staleAfter = 20 * time.Second

// Signs records the signs of life of nodes: the renewals of their leases, by our own clock. The time in a lease comes from the node's clock, which
// may be wrong. The zero value except for Clock is ready.
//
// Standby replicas record them, too, so that a new leader knows how long a node has been silent.
type Signs struct {
	Clock clock.PassiveClock

	mu    sync.Mutex
	nodes map[string]sign
	// lastHeard is when any node last gave a sign of life.
	lastHeard time.Time
}

// sign is a node's last sign of life: the version of its lease, and when we saw it.
type sign struct {
	version string
	seen    time.Time
}

// RecordLease records a lease. Only a new version is a sign of life.
func (s *Signs) RecordLease(node, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		s.nodes = map[string]sign{}
	}
	if s.nodes[node].version == version {
		return
	}
	now := s.Clock.Now()
	if now.Sub(s.lastHeard) > staleAfter {
		for name, old := range s.nodes {
			s.nodes[name] = sign{version: old.version, seen: now}
		}
	}
	s.lastHeard = now
	s.nodes[node] = sign{version: version, seen: now}
}

// forgetNode removes a node whose lease is gone.
func (s *Signs) forgetNode(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, node)
}

// SilentFor returns how long a node has certainly given no sign of life, and the version of its lease since then; 0 if it has no lease, or if no node
// is heard.
func (s *Signs) SilentFor(node string) (time.Duration, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.nodes[node]
	now := s.Clock.Now()
	if !known || now.Sub(s.lastHeard) > staleAfter {
		return 0, ""
	}
	return now.Sub(last.seen), last.version
}

// LeaseMetadata returns the watched kind: the version of a lease is enough.
func LeaseMetadata() client.Object {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
		APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease",
	}}
}

// WatchLeases watches the leases of nodes until ctx ends.
func (s *Signs) WatchLeases(ctx context.Context, from ctrlcache.Informers) error {
	informer, err := from.GetInformer(ctx, LeaseMetadata())
	if err != nil {
		return fmt.Errorf("following the leases of nodes: %w", err)
	}
	see := func(object any) {
		if lease, ok := object.(client.Object); ok && lease.GetNamespace() == corev1.NamespaceNodeLease {
			s.RecordLease(lease.GetName(), lease.GetResourceVersion())
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if lease, ok := object.(client.Object); ok {
				s.forgetNode(lease.GetName())
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following the leases of nodes: %w", err)
	}
	<-ctx.Done()
	return nil
}
