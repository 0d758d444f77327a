package snapshot

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Leader is the leading replica of the scheduler, by their lease.
type Leader struct {
	State LeaderState
	// Name is the replica, "" if none holds the lease.
	Name string
	// Since is when it began to lead, by its own clock; zero if unknown.
	Since time.Time
	// Silent is how long ago it renewed the lease, whose duration is Lease.
	Silent, Lease time.Duration
}

// LeaderState is the state of the lease's holder. The set is closed.
type LeaderState string

const (
	// NeverLed says that there is no lease: no scheduler was ever there.
	NeverLed LeaderState = "NeverLed"
	// NobodyLeads says that the last leader has released the lease.
	NobodyLeads LeaderState = "NobodyLeads"
	// Leads says that the lease is valid: jobs are placed.
	Leads LeaderState = "Leads"
	// LeaderLate says that the lease has expired, so that a standby takes over now, if there is one.
	LeaderLate LeaderState = "LeaderLate"
	// LeaderDead says that the lease expired so long ago that there is no standby.
	LeaderDead LeaderState = "LeaderDead"
)

// defaultLease is the duration of a lease that does not specify it.
const defaultLease = 15 * time.Second

// deadAfter is after how many lease durations without renewal a leader counts as dead: within the second one a standby would have taken over.
const deadAfter = 2

// LeaderOf interprets a lease, nil for none, at a time of the API server's clock, because the clock of this machine may differ.
func LeaderOf(lease *coordinationv1.Lease, now time.Time) Leader {
	if lease == nil || lease.Spec.RenewTime == nil {
		return Leader{State: NeverLed}
	}
	out := Leader{State: Leads, Silent: max(0, now.Sub(lease.Spec.RenewTime.Time)), Lease: defaultLease}
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		out.Lease = time.Duration(*seconds) * time.Second
	}
	if lease.Spec.HolderIdentity != nil {
		out.Name = *lease.Spec.HolderIdentity
	}
	if lease.Spec.AcquireTime != nil {
		out.Since = lease.Spec.AcquireTime.Time
	}
	switch {
	case out.Name == "":
		out.State = NobodyLeads
	case out.Silent > deadAfter*out.Lease:
		out.State = LeaderDead
	case out.Silent > out.Lease:
		out.State = LeaderLate
	}
	return out
}

// PlacesJobs reports whether jobs are placed, or will be in a moment.
func (l Leader) PlacesJobs() bool { return l.State == Leads || l.State == LeaderLate }

// LeadsSince is when the leader began to lead; zero if that is unknown, also of a lease that may not be read.
func (l *Leader) LeadsSince() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.Since
}

// Leader returns the leader of the scheduler, by the lease and the clock that were read; nil if the lease may not be read.
func (s *Snapshot) Leader() *Leader {
	if !s.HasPart(PartLease) {
		return nil
	}
	leader := LeaderOf(s.Lease, s.Now)
	return &leader
}
