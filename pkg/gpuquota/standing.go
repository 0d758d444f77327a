package gpuquota

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Standing is what quotas say of whether a pod leaves for another.
type Standing int

const (
	// Neutral is that they say nothing: priorities decide.
	Neutral Standing = iota
	// Protected is that it stays, whatever the priorities: it is guaranteed to others.
	Protected
	// Yields is that it leaves, whatever the priorities: it is borrowed from those who ask.
	Yields
)

// Standing returns that of a pod with GPUs against somebody who asks for room. Those who have a quota together go by priority.
func (a *Account) Standing(pod types.UID, ask *Ask) Standing {
	e := a.pods[pod]
	if e == nil || !a.guaranteed[e.At.Pool] || e.Namespace == ask.Namespace {
		return Neutral
	}
	guaranteed := slices.ContainsFunc(e.of, func(t *tally) bool { return t.secures(pod) && !slices.Contains(t.Namespaces, ask.Namespace) })
	switch {
	case guaranteed:
		return Protected
	case a.Borrows(pod) && a.lends(ask, e.At, pod):
		return Yields
	}
	return Neutral
}

// Borrows reports whether a pod has more than is guaranteed to its namespace.
func (a *Account) Borrows(pod types.UID) bool {
	e := a.pods[pod]
	return e != nil && !slices.ContainsFunc(e.of, func(t *tally) bool { return t.secures(pod) })
}

// unit is pods that leave together, as far as they count in a quota.
type unit struct {
	name     string
	pods     []types.UID
	gpus     int64
	waits    bool
	priority int32
	since    time.Time
}

// secures reports whether a pod is guaranteed its GPUs by a quota. Where that is so of all or of none they are not gone through, each time
// that one comes or goes.
func (t *tally) secures(pod types.UID) bool {
	switch {
	case t.Min <= 0:
		return false
	case t.used+t.kept <= t.Min:
		return t.pods[pod] != nil
	}
	return t.within()[pod]
}

// within are the pods that are guaranteed: whole units, as long as there is enough of the min. Those that hold their GPUs come before
// those that wait for them.
func (t *tally) within() map[types.UID]bool {
	if t.secured != nil {
		return t.secured
	}
	t.secured = map[types.UID]bool{}
	left := t.Min
	for _, u := range t.units() {
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

func (t *tally) units() []*unit {
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
