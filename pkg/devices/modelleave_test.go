package devices

import (
	"slices"

	"k8s.io/klog/v2"
)

// fail has a binding fail: Unreserve comes first, and the pod leaves the cache after that.
func (w *world) fail(m *machine) {
	tn := w.anyOf(m, func(tn *tenant) bool { return tn.chosen && !tn.annotated })
	if tn != nil {
		w.drop(m, tn)
	}
}

// remove has a pod deleted, whichever handler of the event comes first.
func (w *world) remove(m *machine) {
	tn := w.anyOf(m, func(*tenant) bool { return true })
	if tn == nil {
		return
	}
	if w.r.IntN(2) == 0 {
		w.drop(m, tn)
		return
	}
	w.leave(m, tn)
	m.tenants = without(m.tenants, tn)
	w.check(m)
	w.ledger.podGone(tn.pod)
}

// drop takes the choice away first, and then the pod.
func (w *world) drop(m *machine, tn *tenant) {
	w.ledger.ForgetPod(tn.pod.UID)
	tn.chosen = false
	w.check(m)
	w.leave(m, tn)
	m.tenants = without(m.tenants, tn)
}

// leave takes a pod out of the cache.
func (w *world) leave(m *machine, tn *tenant) {
	if err := m.info.RemovePod(klog.Background(), tn.pod); err != nil {
		w.t.Fatal(err)
	}
}

// deleteEarly has a pod deleted while it is being bound: the scheduler takes it out of its cache at once, and others may
// have its cards before its binding fails.
func (w *world) deleteEarly(m *machine) {
	tn := w.anyOf(m, func(tn *tenant) bool { return tn.chosen && !tn.annotated })
	if tn == nil {
		return
	}
	w.leave(m, tn)
	m.tenants = without(m.tenants, tn)
	w.deleted = append(w.deleted, tn.pod.UID)
}

// failLate has such a binding fail, which must not touch those who have the cards by now. The event of the deletion
// drops the choice as well, before or after.
func (w *world) failLate() {
	if len(w.deleted) == 0 {
		return
	}
	at := w.r.IntN(len(w.deleted))
	for range 2 {
		w.ledger.ForgetPod(w.deleted[at])
		for _, m := range w.machines {
			w.check(m)
		}
	}
	w.deleted = slices.Delete(w.deleted, at, at+1)
}

func (w *world) anyOf(m *machine, suits func(*tenant) bool) *tenant {
	var found []*tenant
	for _, tn := range m.tenants {
		if suits(tn) {
			found = append(found, tn)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[w.r.IntN(len(found))]
}

func without(tenants []*tenant, gone *tenant) []*tenant {
	return slices.DeleteFunc(tenants, func(tn *tenant) bool { return tn == gone })
}
