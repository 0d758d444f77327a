package recorder

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// jobBook records the jobs of one resource.
type jobBook struct {
	recorder *Recorder
	of       string
}

// HandleList implements snapshot.Chronicle.
func (b *jobBook) HandleList(objects []metav1.Object, _ time.Time, at snapshot.Point) error {
	return b.recorder.Store.Update(func(tx *store.Tx) error {
		there := make(map[string]bool, len(objects))
		for _, object := range objects {
			there[string(object.GetUID())] = true
			if err := b.recordJob(tx, object, false, at.Time); err != nil {
				return err
			}
		}
		var gone []*ledger.Job
		err := tx.EachJob(func(job *ledger.Job) error {
			if job.Object == b.of && !there[job.UID] {
				gone = append(gone, job)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, job := range gone {
			job.Uncertain = job.Finished.IsZero()
			markDeleted(job, at.Time)
			if err := tx.PutJob(job); err != nil {
				return err
			}
		}
		return tx.SetMark(b.of, markOf(at))
	})
}

// HandleChanges implements snapshot.Chronicle.
func (b *jobBook) HandleChanges(changes []snapshot.Change, at snapshot.Point) error {
	return b.recorder.Store.Update(func(tx *store.Tx) error {
		for i := range changes {
			seen := notBefore(changes[i].At, changes[i].Object)
			if err := b.recordJob(tx, changes[i].Object, changes[i].Gone, seen); err != nil {
				return err
			}
		}
		return tx.SetMark(b.of, markOf(at))
	})
}

// recordJob records an observed job.
func (b *jobBook) recordJob(tx *store.Tx, object metav1.Object, gone bool, at time.Time) error {
	next, ok := jobOf(object, b.of)
	if !ok {
		return nil
	}
	known, err := tx.Job(next.UID)
	if err != nil {
		return err
	}
	if known != nil && known.User != "" {
		next.User = known.User // as it was when it was submitted
	}
	next.Finished = boundFinished(next.Finished, next.Created, at)
	if gone {
		markDeleted(next, at)
	}
	if known != nil && known.Equal(next) {
		return nil
	}
	if err := tx.PutJob(next); err != nil {
		return err
	}
	if known != nil {
		return nil
	}
	return tx.AdoptHoldings(next)
}

// boundFinished bounds the end of a job, because users can write the cancellation time: such as in the year 0, which JSON cannot encode.
func boundFinished(finished, created, seen time.Time) time.Time {
	switch {
	case finished.IsZero():
		return finished
	case finished.After(seen):
		return seen.UTC().Truncate(time.Second)
	case finished.Before(created):
		return created
	}
	return finished
}

// markDeleted records that a job was deleted, which ends one that had not ended.
func markDeleted(job *ledger.Job, at time.Time) {
	job.Deleted = at.UTC().Truncate(time.Second)
	if job.Finished.IsZero() {
		job.Finished, job.Status = job.Deleted, ledger.OutcomeDeleted
	}
}

// jobOf converts an object to the record of a job, in gpuctl's terms; false if it is no job.
func jobOf(object metav1.Object, of string) (*ledger.Job, bool) {
	var read snapshot.Snapshot
	switch object := object.(type) {
	case *batchv1.Job:
		read.Jobs = []batchv1.Job{*object}
	case *appsv1.Deployment:
		read.Deployments = []appsv1.Deployment{*object}
	}
	jobs := inventory.Build(&read).Jobs
	if len(jobs) != 1 {
		return nil, false
	}
	job := &jobs[0]
	out := &ledger.Job{
		UID: string(object.GetUID()), Object: of, Namespace: job.Namespace, Name: job.Name, Kind: job.Kind, User: job.User,
		Pool: job.Pool, Priority: job.Priority, GPUs: job.GPUs, GPUTypes: job.GPUTypes, Created: job.Created.UTC().Truncate(time.Second),
	}
	if job.Array != nil { // regardless of the remaining tasks
		out.GPUs = job.PodGPUs * int64(job.Array.AtOnce)
	}
	switch job.Status {
	case inventory.StatusSucceeded, inventory.StatusFailed, inventory.StatusCancelled:
		out.Status, out.Reason, out.Message = string(job.Status), job.Reason, job.Message
	}
	switch {
	case job.Finished != nil:
		out.Finished = job.Finished.UTC().Truncate(time.Second)
	case job.Status == inventory.StatusCancelled:
		if at, err := time.Parse(time.RFC3339, object.GetAnnotations()[names.AnnotationCancelledAt]); err == nil {
			out.Finished = at.UTC().Truncate(time.Second)
		}
	}
	return out, true
}
