package submit

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// maxJobBytes is the maximum size of a Job read from a Lease: more than etcd accepts.
const maxJobBytes = 2 << 20

// Replacement is a Job that a Lease holds, to be created in place of a missing one. Anyone who may write Leases in its namespace can have put it
// there, but it is created with the rights of the user who resumes the job. So it is never created unseen.
type Replacement struct {
	Ref Ref
	Job *batchv1.Job
	// Object is the Job as it is sent, for programs and for users who inspect all of it.
	Object map[string]any
	// Digest identifies exactly this Job, and what happens after its creation.
	Digest string
	// Lease is the name of the Lease.
	Lease string
	// Kept is since when the Lease exists, and Changed when it was last changed since, zero if never. gpuctl never changes it.
	Kept, Changed time.Time
}

// UnseenJobError says that a job can only be resumed by creating a Job that the user has not seen.
type UnseenJobError struct {
	Replacement Replacement
	// Asked is the digest of the Job to be created; "" if none was given.
	Asked string
}

func (e *UnseenJobError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *UnseenJobError) Message() phrase.Text {
	r := e.Replacement
	if e.Asked != "" {
		return phrase.Textf("Lease %s in namespace %s has another Job than that with the digest %s: nothing was made", r.Lease, r.Ref.Namespace, e.Asked)
	}
	return phrase.Textf("job %q is not there. Lease %s in namespace %s has a Job to be made in its place; "+
		"who may write Leases there may have put it there, so nobody makes it unseen: nothing was made", r.Ref.Name, r.Lease, r.Ref.Namespace)
}

// MisplacedJobError says that the Lease of a job holds a Job of another name, kind or namespace, which gpuctl never writes.
type MisplacedJobError struct {
	Ref Ref
	// Lease is the name of the Lease.
	Lease string
}

func (e *MisplacedJobError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *MisplacedJobError) Message() phrase.Text {
	return phrase.Textf("Lease %[1]s in namespace %[2]s has a Job of another name or namespace than job %[3]q, which gpuctl has not written there: nothing was made\n"+
		"Remove it: gpuctl delete job %[3]s -n %[2]s", e.Lease, e.Ref.Namespace, e.Ref.Name)
}

func decodeReplacement(text string) (replacement, error) {
	var out replacement
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewBufferString(text)))
	if err != nil {
		return out, err
	}
	if err = json.NewDecoder(io.LimitReader(reader, maxJobBytes)).Decode(&out); err == nil && out.Job == nil {
		err = phrase.Errorf("it has no Job")
	}
	return out, err
}

// contentDigest returns a hash of everything that is created from it.
func (r replacement) contentDigest() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// isDocumentOf reports whether it is the Job of the given job, as gpuctl creates it.
func (r replacement) isForJob(ref Ref) bool {
	job := r.Job
	return job.Namespace == ref.Namespace && job.Name == render.TopName(workload.Kind(jobKindOf(job)), ref.Name) && job.GenerateName == "" &&
		isOurs(job) && jobNameOf(job) == ref.Name && len(job.OwnerReferences) == 0
}

// InterruptedReplacement reads the Lease of a job whose replacement was interrupted while no Job existed; nil if there is none. A user who may not
// read Leases gets none. The content of a Lease proves nothing.
func (c *Client) InterruptedReplacement(ctx context.Context, ref Ref) (client.Object, error) {
	return c.readLease(ctx, replacementPrefix, ref)
}

// InterruptedJobs lists the jobs of a namespace that have a Lease of [Client.InterruptedReplacement], whether they exist or not.
func (c *Client) InterruptedJobs(ctx context.Context, namespace string) ([]Ref, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("LeaseList"))
	err := c.api.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{names.LabelManagedBy: names.ManagedByGpuctl})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, phrase.Errorf("looking for jobs that were being made again: %w", err)
	}
	var out []Ref
	for i := range list.Items {
		if job, ok := strings.CutPrefix(list.Items[i].Name, replacementPrefix); ok {
			out = append(out, Ref{Namespace: namespace, Name: job, Kind: jobKindOf(&list.Items[i])})
		}
	}
	return out, nil
}

// deleteFinishedReplacement deletes the replacement Lease of a job whose Job exists. If that Job is yet to be deleted, another client is still
// replacing it, and the Lease stays.
func (c *Client) deleteFinishedReplacement(ctx context.Context, ref Ref, top client.Object) {
	lease, err := c.InterruptedReplacement(ctx, ref)
	if err != nil || lease == nil {
		return // the next replacement or deletion of the job removes it
	}
	if known, err := decodeReplacement(lease.GetAnnotations()[names.AnnotationReplacement]); err == nil && known.Old == top.GetUID() {
		return
	}
	c.deleteReplacement(ctx, lease)
}

// readReplacement reads the Job to be created in place of a missing one; absent is the error that it is missing.
func (c *Client) readReplacement(ctx context.Context, ref Ref, absent error) (lease client.Object, known replacement, err error) {
	lease, err = c.InterruptedReplacement(ctx, ref)
	switch {
	case err != nil:
		return nil, known, err
	case lease == nil:
		return nil, known, absent
	}
	known, err = decodeReplacement(lease.GetAnnotations()[names.AnnotationReplacement])
	if err != nil {
		return nil, known, phrase.Errorf("%w\nWhat Lease %s knows of it cannot be read: %w", absent, lease.GetName(), err)
	}
	if !known.isForJob(ref) {
		return nil, known, &MisplacedJobError{Ref: ref, Lease: lease.GetName()}
	}
	known.Job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return lease, known, nil
}

// newReplacement returns what a user must have seen before the Job is created.
func newReplacement(lease client.Object, known replacement) (*Replacement, error) {
	digest, err := known.contentDigest()
	if err != nil {
		return nil, err
	}
	tree, err := render.Tree(known.Job)
	if err != nil {
		return nil, err
	}
	out := &Replacement{
		Ref: newResult(known.Job, "").Ref, Job: known.Job.DeepCopy(), Object: tree, Digest: digest,
		Lease: lease.GetName(), Kept: lease.GetCreationTimestamp().Time,
	}
	for _, written := range lease.GetManagedFields() {
		if written.Time != nil && written.Time.After(out.Kept) && written.Time.After(out.Changed) {
			out.Changed = written.Time.Time
		}
	}
	return out, nil
}

// resumeReplacement continues an interrupted replacement: it creates the missing Job if the options name it, gives it the kept parts of the job, and
// ends its suspension as [Client.replaceJob] does. absent is the error that the job is missing; it is returned if there is no replacement.
func (c *Client) resumeReplacement(ctx context.Context, ref Ref, opts StepOptions, absent error) (Result, error) {
	if err := c.checkAbsent(); err != nil {
		return Result{}, err
	}
	lease, known, err := c.readReplacement(ctx, ref, absent)
	if err != nil {
		return Result{}, err
	}
	job := known.Job
	result := newResult(job, ActionResumed)
	if result.Replacement, err = newReplacement(lease, known); err != nil {
		return Result{}, err
	}
	switch looks := opts.DryRun && opts.Digest == ""; {
	case !looks && opts.Digest != result.Replacement.Digest:
		return Result{}, &UnseenJobError{Replacement: *result.Replacement, Asked: opts.Digest}
	case opts.DryRun:
		return result, c.explainCreate(ctx, job, c.api.Create(ctx, job, client.DryRunAll))
	}
	if err := c.createReplacement(ctx, job, lease); err != nil {
		return Result{}, err
	}
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: known.Old, Labels: job.Labels}}
	old.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	if err := c.waitForPods(ctx, old); err != nil {
		return Result{}, phrase.Errorf("%w\nThe new job is there, and paused: resume it when the pods of the old one have ended", err)
	}
	if err := c.endSuspension(ctx, job, known.Suspend, known.Held); err != nil || known.Held || !known.Suspend {
		return result, err
	}
	again, err := c.runStep(ctx, ref, opts, ActionResumed, jobplan.Resume) // it was paused when it was replaced
	again.Replacement = result.Replacement
	return again, err
}

// createReplacement creates a Job from a Lease that the user has seen, and gives it the kept parts of the job.
func (c *Client) createReplacement(ctx context.Context, job *batchv1.Job, lease client.Object) error {
	if err := c.createOne(ctx, job); err != nil {
		return err
	}
	c.deleteReplacement(ctx, lease)
	if _, err := c.reserveName(ctx, job); err != nil {
		return err
	}
	var kept []*unstructured.Unstructured
	for _, kind := range keptKinds {
		found, err := c.listObjects(ctx, kind, job.Namespace, jobNameOf(job))
		if isUnknown(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, object := range found {
			if !isKept(object) {
				continue
			}
			part, err := c.readObject(ctx, object)
			if err != nil {
				return err
			}
			kept = append(kept, part) // nil if it is gone
		}
	}
	if err := c.setOwners(ctx, kept, job); err != nil {
		return err
	}
	return c.removeKeeper(ctx, job)
}

// keptKinds are the kinds that may belong to a training job.
var keptKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Service"), schema.FromAPIVersionAndKind(names.PodGroupAPIVersion, names.PodGroupKind),
}
