package submit

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// replaceTimeout bounds the time in which the Job does not exist during its replacement. Usually it takes milliseconds, unless something delays the
// deletion of the old object.
const replaceTimeout = 30 * time.Second

// replaceJob recreates a Job, because Kubernetes cannot change its pods in place. The objects that belong to it stay and change owners, so that
// claims keep their data.
//
// The API server validates the new Job before the old one is deleted. If the new one is refused nevertheless, the old one is restored. While neither
// exists, a keeper owns the parts of the job, and a Lease holds the new one. The new Job stays suspended until the last pod of the old one has ended:
// two runs of one job must not write to one folder. An interruption at this point leaves a paused job, which can be resumed. A Job that waits for
// other jobs is marked as paused, so that gpu-controller does not start it meanwhile; it waits for them again when it is resumed.
func (c *Client) replaceJob(ctx context.Context, plan *jobPlan, dryRun bool) error {
	fresh, ok := asBatchJob(plan.desired[0])
	if !ok {
		return phrase.Errorf("replacing %s: only a Job can be recreated", describeObject(plan.live))
	}
	fresh.OwnerReferences, fresh.ResourceVersion = nil, "" // a precondition pinned the version of the old one
	jobplan.InheritMetadata(fresh, plan.after[0])
	now, err := c.checkCreatable(ctx, fresh)
	if err != nil || dryRun {
		return err
	}
	suspend := ptr.Deref(fresh.Spec.Suspend, false)
	fresh.Spec.Suspend = ptr.To(true)
	held := suspend && jobplan.HoldIfWaiting(fresh, now)
	if !suspend {
		jobplan.AnnotateHeld(fresh)
	}
	known := replacement{Job: fresh, Old: plan.live.GetUID(), Suspend: suspend, Held: held}
	if err := c.swapJobs(ctx, plan, known); err != nil {
		return err
	}
	if _, err := c.reserveName(ctx, fresh); err != nil {
		return err
	}
	if err := c.adoptParts(ctx, plan, fresh); err != nil {
		return err
	}
	if isIncomplete(fresh) {
		if err := c.markComplete(ctx, fresh); err != nil {
			return err
		}
	}
	if err := c.waitForPods(ctx, plan.live); err != nil {
		return phrase.Errorf("%w\nThe new job is there, and paused: resume it when the pods of the old one have ended", err)
	}
	return c.endSuspension(ctx, fresh, suspend, held)
}

// endSuspension ends the suspension in which a new Job was created, unless it must stay suspended.
func (c *Client) endSuspension(ctx context.Context, fresh *batchv1.Job, suspend, held bool) error {
	switch {
	case held:
		return c.releaseHold(ctx, fresh)
	case suspend:
		return nil
	}
	body, err := jobplan.StartHeldPatch()
	if err != nil {
		return err
	}
	return c.patchObject(ctx, fresh, body, false)
}

// releaseHold lets a held Job wait for other jobs again, unless someone has resumed, paused or cancelled it since.
func (c *Client) releaseHold(ctx context.Context, held *batchv1.Job) error {
	ref := newResult(held, "").Ref
	_, err := c.runStep(ctx, ref, StepOptions{}, ActionResumed, func(top client.Object) (jobplan.Step, error) {
		return jobplan.ReleaseHold(top, held)
	})
	if isNotFound(err) {
		return nil // deleted meanwhile
	}
	return err
}

// checkCreatable asks the API server whether it would create a Job, under another name because its own is taken, and returns the server's time.
func (c *Client) checkCreatable(ctx context.Context, job *batchv1.Job) (time.Time, error) {
	probe := job.DeepCopy()
	probe.Name, probe.GenerateName = "", "gpuctl-check-"
	if err := c.api.Create(ctx, probe, client.DryRunAll); err != nil {
		return time.Time{}, phrase.Errorf("creating %s: %w", describeObject(job), err)
	}
	return probe.CreationTimestamp.Time, nil
}

// swapJobs deletes the old Job and creates the new one. It completes even if ctx ends.
func (c *Client) swapJobs(ctx context.Context, plan *jobPlan, known replacement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if plan.keeper, err = c.keepParts(ctx, plan.live, plan.ownedParts()); err != nil {
		return err
	}
	lease, err := c.saveReplacement(ctx, plan.live, known)
	if err != nil {
		return err
	}
	if err := c.removeObject(ctx, plan.live); err != nil {
		c.deleteReplacement(ctx, lease)
		return err
	}
	if err := c.waitForName(ctx, plan.live); err != nil {
		return err
	}
	if err := c.createOne(ctx, known.Job); err != nil {
		return c.restoreOldJob(ctx, plan, lease, err)
	}
	c.deleteReplacement(ctx, lease)
	return nil
}

// restoreOldJob recreates the old Job after the new one could not be created, and returns the error that made it necessary. lease holds the new one.
func (c *Client) restoreOldJob(ctx context.Context, plan *jobPlan, lease client.Object, cause error) error {
	job, _ := asBatchJob(plan.live)
	old := withoutServerFields(job)
	if err := c.createOne(ctx, old); err != nil {
		return phrase.Errorf("%w; putting the old job back failed too, create it again: %w", cause, err)
	}
	c.deleteReplacement(ctx, lease)
	cause = phrase.Errorf("%w; the old job was put back, and starts over", cause)
	if err := c.returnParts(ctx, plan, old); err != nil {
		return errors.Join(cause, err)
	}
	if plan.keeper != nil {
		return errors.Join(cause, c.removeObject(ctx, plan.keeper))
	}
	return cause
}

// withoutServerFields returns a Job without the fields that Kubernetes sets when it creates and runs it.
func withoutServerFields(old *batchv1.Job) *batchv1.Job {
	out := old.DeepCopy()
	out.ResourceVersion, out.UID, out.ManagedFields = "", "", nil
	out.Status = batchv1.JobStatus{}
	out.Spec.Selector = nil
	for _, labels := range []map[string]string{out.Labels, out.Spec.Template.Labels} {
		for _, key := range []string{
			batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name",
		} {
			delete(labels, key)
		}
	}
	return out
}

// waitForName waits until the name of a deleted object is free.
func (c *Client) waitForName(ctx context.Context, deleted client.Object) error {
	ctx, stop := timelimit.WithLimit(ctx, replaceTimeout, phrase.Textf("the old one is deleted and has not gone yet, so that the new one was not created: "+
		"gpuctl resume creates it in a moment, or create the job again"))
	defer stop()
	err := timelimit.Explain(ctx, wait.PollUntilContextCancel(ctx, deletionPollInterval, true, func(ctx context.Context) (bool, error) {
		found, err := c.readObject(ctx, deleted)
		return found == nil || found.GetUID() != deleted.GetUID(), err
	}))
	if err != nil {
		return phrase.Errorf("waiting for %s to go: %w", describeObject(deleted), err)
	}
	return nil
}

// adoptParts makes the new Job the owner of the job's parts, and creates missing ones.
func (c *Client) adoptParts(ctx context.Context, plan *jobPlan, owner client.Object) error {
	if err := c.returnParts(ctx, plan, owner); err != nil {
		return err
	}
	for i, object := range plan.desired[1:] {
		setOwner(owner, object)
		var err error
		if plan.before[i+1] == nil {
			err = c.createOne(ctx, object)
		} else {
			err = c.serverSideApply(ctx, object, false, true)
		}
		if err != nil {
			return err
		}
	}
	for _, object := range plan.obsolete {
		if err := c.removeObject(ctx, object); err != nil {
			return err
		}
	}
	if plan.keeper != nil {
		return c.removeObject(ctx, plan.keeper)
	}
	return nil
}

// waitForPods waits until all pods of the object have ended.
func (c *Client) waitForPods(ctx context.Context, owner client.Object) error {
	err := wait.PollUntilContextCancel(ctx, deletionPollInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := c.listPods(ctx, owner)
		for i := range pods {
			if !gpu.HasEnded(&pods[i]) {
				return false, err
			}
		}
		return true, err
	})
	if err != nil {
		return phrase.Errorf("waiting for the pods of %s to end: %w", describeObject(owner), err)
	}
	return nil
}

// listPods reads the pods of a job; for a Job, only those of this object.
func (c *Client) listPods(ctx context.Context, top client.Object) ([]corev1.Pod, error) {
	var pods corev1.PodList
	ref := Ref{Name: jobNameOf(top), Kind: jobKindOf(top)}
	labels := ref.matchLabels()
	if _, ok := asBatchJob(top); ok {
		labels = client.MatchingLabels{batchv1.ControllerUidLabel: string(top.GetUID())}
	}
	if err := c.api.List(ctx, &pods, client.InNamespace(top.GetNamespace()), labels); err != nil {
		return nil, phrase.Errorf("listing the pods of job %s: %w", jobNameOf(top), err)
	}
	return pods.Items, nil
}

func asBatchJob(object client.Object) (*batchv1.Job, bool) {
	job, ok := object.(*batchv1.Job)
	return job, ok
}

func isNotFound(err error) bool {
	return errors.As(err, new(*inventory.NotFoundError)) || apierrors.IsNotFound(err)
}
