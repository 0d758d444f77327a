package recorder

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// podBook records the holdings of pods.
type podBook struct{ recorder *Recorder }

// HandleList implements snapshot.Chronicle.
func (b *podBook) HandleList(objects []metav1.Object, since time.Time, at snapshot.Point) error {
	there := make(map[string]bool, len(objects))
	err := b.recorder.Store.Update(func(tx *store.Tx) error {
		for _, object := range objects {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				continue
			}
			there[string(pod.UID)] = true
			if err := b.recordPod(tx, ledger.Sighting{Pod: pod, Since: since, At: at.Time}); err != nil {
				return err
			}
		}
		if err := b.endVanished(tx, there, since, at.Time); err != nil {
			return err
		}
		if !since.IsZero() {
			if err := tx.AddGap(ledger.Gap{From: since, To: at.Time}); err != nil {
				return err
			}
		}
		return tx.SetMark(FollowPods, markOf(at))
	})
	if err != nil {
		return err
	}
	if !since.IsZero() {
		b.recorder.Log.Warn("The API server has forgotten what happened: pods that began and ended in that time are missing",
			"since", since, "until", at.Time)
	}
	b.reportEnding(objects)
	return nil
}

// endVanished ends the holdings of pods that no longer exist.
func (b *podBook) endVanished(tx *store.Tx, there map[string]bool, since, at time.Time) error {
	var gone []*ledger.Holding
	err := tx.EachOpen(func(h *ledger.Holding) error {
		if !there[h.UID] {
			gone = append(gone, ledger.EndVanished(h, since, at))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range gone {
		if err := tx.Put(h); err != nil {
			return err
		}
	}
	return tx.KeepLasting(there)
}

// HandleChanges implements snapshot.Chronicle.
func (b *podBook) HandleChanges(changes []snapshot.Change, at snapshot.Point) error {
	err := b.recorder.Store.Update(func(tx *store.Tx) error {
		var stamp time.Time
		for i := range changes {
			change := &changes[i]
			pod, ok := change.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			change.At = notBefore(change.At, pod)
			// A later event happened after earlier writes.
			if since := earlierTime(stamp, change.At); since.After(change.Since) {
				change.Since = since
			}
			stamp = lastWritten(pod, stamp)
			if err := b.recordPod(tx, ledger.Sighting{Pod: pod, Gone: change.Gone, Since: change.Since, At: change.At}); err != nil {
				return err
			}
		}
		return tx.SetMark(FollowPods, markOf(at))
	})
	if err != nil {
		return err
	}
	for i := range changes {
		if pod, ok := changes[i].Object.(*corev1.Pod); ok && changes[i].Gone && b.recorder.Outputs != nil {
			b.recorder.Outputs.PodGone(pod)
		} else {
			b.reportEnding([]metav1.Object{changes[i].Object})
		}
	}
	return nil
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// notBefore returns when an object was seen: not before the API server wrote it. Kubernetes' times follow the API server's clock, which may be ahead
// of ours. Users can write these times, too, so the correction is bounded.
func notBefore(seen time.Time, object metav1.Object) time.Time {
	if written := lastWritten(object, seen); written.Sub(seen) <= ledger.MostSkew {
		return written
	}
	return seen
}

// lastWritten returns when an object was last written, by the API server's clock, or the given time if that is later.
func lastWritten(object metav1.Object, or time.Time) time.Time {
	fields := object.GetManagedFields()
	for i := range fields {
		if at := fields[i].Time; at != nil && at.After(or) {
			or = at.Time
		}
	}
	return or
}

// recordPod records the holding of an observed pod.
func (b *podBook) recordPod(tx *store.Tx, seen ledger.Sighting) error {
	uid := string(seen.Pod.UID)
	known, over, err := tx.Holding(uid)
	if err != nil || over {
		if seen.Gone && err == nil {
			err = tx.ForgetPod(uid)
		}
		return err
	}
	next := ledger.ObservePod(known, seen, b.recorder.nodes.getNode(seen.Pod.Spec.NodeName))
	if next == nil {
		return nil
	}
	if next.Job != "" && next.JobUID == "" {
		if err := b.attributeHolding(tx, next, seen.Pod.CreationTimestamp.Time); err != nil {
			return err
		}
	}
	if isNews(known, next) {
		if err := tx.Put(next); err != nil {
			return err
		}
	}
	if seen.Gone {
		return tx.ForgetPod(uid)
	}
	return nil
}

// isNews reports whether a holding differs from the previous one.
func isNews(known, next *ledger.Holding) bool {
	return known == nil || next.HasEnded() || next.GPUType != known.GPUType || next.JobUID != known.JobUID || next.Milli != known.Milli
}

// attributeHolding sets the job and user of a holding.
func (b *podBook) attributeHolding(tx *store.Tx, h *ledger.Holding, created time.Time) error {
	job, err := tx.JobAt(h.Namespace, h.Job, created)
	if err != nil || job == nil {
		return err // its job will be seen later
	}
	h.JobUID, h.User = job.UID, job.User
	return nil
}

// reportEnding reports pods that are terminating or have ended.
func (b *podBook) reportEnding(objects []metav1.Object) {
	if b.recorder.Outputs == nil {
		return
	}
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok && (pod.DeletionTimestamp != nil || gpu.HasEnded(pod)) {
			b.recorder.Outputs.PodEnding(pod)
		}
	}
}
