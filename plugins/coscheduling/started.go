package coscheduling

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// started holds the gangs of which some members have a place and wait for the others.
type started struct {
	mu     sync.RWMutex
	groups map[types.NamespacedName]bool
}

func (s *started) begin(group types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		s.groups = map[types.NamespacedName]bool{}
	}
	s.groups[group] = true
}

func (s *started) end(group types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups, group)
}

func (s *started) has(group types.NamespacedName) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[group]
}
