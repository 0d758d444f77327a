package gpuquota

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Standing is whether quotas require or forbid preempting a pod for another.
type Standing int

const (
	// Neutral: quotas do not decide, priorities do.
	Neutral Standing = iota
	// Protected: the pod stays regardless of priority, because its GPUs are guaranteed to its namespaces.
	Protected
	// Yields: the pod leaves regardless of priority, because its GPUs are borrowed from the requester.
	Yields
)

// StandingOf returns the standing of a pod against a request. Namespaces that share a quota go by priority.
func (a *Account) StandingOf(pod types.UID, ask *Ask) Standing {
	e := a.pods[pod]
	if e == nil || !a.guaranteed[e.At.Pool] || e.Namespace == ask.Namespace {
		return Neutral
	}
	guaranteed := slices.ContainsFunc(e.tallies, func(t *tally) bool { return t.isSecured(pod) && !slices.Contains(t.Namespaces, ask.Namespace) })
	switch {
	case guaranteed:
		return Protected
	case a.IsBorrowing(pod) && a.isGuaranteed(ask, e.At, pod):
		return Yields
	}
	return Neutral
}

// IsBorrowing reports whether a pod exceeds the guarantee of its namespace.
func (a *Account) IsBorrowing(pod types.UID) bool {
	e := a.pods[pod]
	return e != nil && !slices.ContainsFunc(e.tallies, func(t *tally) bool { return t.isSecured(pod) })
}

// unit is the part of a set of pods evicted together that counts in a quota.
type unit struct {
	name     string
	pods     []types.UID
	gpus     int64
	waits    bool
	priority int32
	since    time.Time
}

// isSecured reports whether a quota guarantees a pod its GPUs. If it guarantees all or none, it avoids sorting the pods after each change.
func (t *tally) isSecured(pod types.UID) bool {
	switch {
	case t.Min <= 0:
		return false
	case t.used+t.kept <= t.Min:
		return t.pods[pod] != nil
	}
	return t.securedPods()[pod]
}

// securedPods returns the guaranteed pods: whole units while the min suffices. Units that hold their GPUs come before those that wait for them.
func (t *tally) securedPods() map[types.UID]bool {
	if t.secured != nil {
		return t.secured
	}
	t.secured = map[types.UID]bool{}
	left := t.Min
	for _, u := range t.sortedUnits() {
		if u.gpus > left {
			continue
		}
		left -= u.gpus
		for _, pod := range u.pods {
			t.secured[pod] = true
		}
	}
	return t.secured
}

func (t *tally) sortedUnits() []*unit {
	of := map[string]*unit{}
	for uid, e := range t.pods {
		u := of[e.Unit]
		if u == nil {
			u = &unit{name: e.Unit, priority: e.Priority, since: e.Since, waits: e.Waits}
			of[e.Unit] = u
		}
		u.pods, u.gpus = append(u.pods, uid), u.gpus+e.GPUs
		u.priority, u.waits = max(u.priority, e.Priority), u.waits && e.Waits
		if e.Since.Before(u.since) {
			u.since = e.Since
		}
	}
	return slices.SortedFunc(maps.Values(of), func(a, b *unit) int {
		return cmp.Or(compareWaits(a.waits, b.waits), cmp.Compare(b.priority, a.priority), a.since.Compare(b.since), strings.Compare(a.name, b.name))
	})
}

func compareWaits(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
