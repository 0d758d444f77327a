package submit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// againPrefix begins the names of the Leases that know a Job which is made again.
const againPrefix = "gpuctl-again-"

const (
	// mostNoted is how large what such a Lease knows may be, as all annotations of an object may have 256 KiB.
	mostNoted = 200 << 10
	// mostJob is how large a Job may be that is read from it: more than the API server takes.
	mostJob = 4 << 20
)

// replacement is a Job that comes in the place of one that is deleted for it. A Lease knows it from before the deletion until the
// creation, so that whoever is stopped between the two has not lost a job that no file has.
type replacement struct {
	Job *batchv1.Job `json:"job"`
	// Old is the Job in whose place it comes: its pods are waited for.
	Old types.UID `json:"old"`
	// Suspend and Held are those of [Client.letGo].
	Suspend bool `json:"suspend,omitempty"`
	Held    bool `json:"held,omitempty"`
}

// remember writes such a Lease, nil if the user may not, or the Job is too large for it: then only its file has it meanwhile.
func (c *Client) remember(ctx context.Context, top client.Object, r replacement) (client.Object, error) {
	text, err := r.encode()
	if err != nil || len(text) > mostNoted {
		return nil, err
	}
	lease := reservation(top)
	lease.Name, lease.Annotations = againPrefix+jobOf(top), map[string]string{names.AnnotationReplacement: text}
	err = c.createOne(ctx, lease)
	if errors.As(err, new(*ExistsError)) { // of somebody who was stopped, and whose Job is there all the same
		if err = c.forgetOther(ctx, lease); err == nil {
			err = c.createOne(ctx, lease)
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return lease, nil
}

// forgetOther removes the Lease of a name, if it is ours.
func (c *Client) forgetOther(ctx context.Context, like client.Object) error {
	found, err := c.read(ctx, like)
	if err != nil || found == nil {
		return err
	}
	if !isOurs(found) {
		return &ExistsError{Namespace: found.GetNamespace(), Object: describe(found)}
	}
	return c.remove(ctx, found)
}

// forget removes what remember wrote. One that stays is in nobody's way: the next who makes the job again replaces it.
func (c *Client) forget(ctx context.Context, lease client.Object) {
	if lease != nil {
		_ = c.remove(ctx, lease)
	}
}

func (r replacement) encode() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		return "", err
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

func decodeReplacement(text string) (replacement, error) {
	var out replacement
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewBufferString(text)))
	if err != nil {
		return out, err
	}
	if err = json.NewDecoder(io.LimitReader(reader, mostJob)).Decode(&out); err == nil && out.Job == nil {
		err = phrase.Errorf("it has no Job")
	}
	return out, err
}

// Broken reads what is known of a job that somebody was making again who was stopped while there was none; nil if there is no such
// job. Who may not read Leases has none.
func (c *Client) Broken(ctx context.Context, ref Ref) (client.Object, error) {
	return c.leaseOf(ctx, againPrefix, ref)
}

// remake goes on where somebody was stopped: it makes the Job that is not there, gives it what was kept of the job, and lets it go
// as [Client.replace] does. absent is the error that the job is not there, which stays if nothing is known of it.
func (c *Client) remake(ctx context.Context, ref Ref, opts StepOptions, absent error) (Result, error) {
	lease, err := c.Broken(ctx, ref)
	switch {
	case err != nil:
		return Result{}, err
	case lease == nil:
		return Result{}, absent
	}
	known, err := decodeReplacement(lease.GetAnnotations()[names.AnnotationReplacement])
	if err != nil {
		return Result{}, phrase.Errorf("%w\nWhat Lease %s knows of it cannot be read: %w", absent, lease.GetName(), err)
	}
	job := known.Job
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	job.Namespace = ref.Namespace
	result := resultOf(job, ActionResumed)
	if opts.DryRun {
		return result, nil
	}
	if err := c.makeKnown(ctx, job, lease); err != nil {
		return Result{}, err
	}
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: known.Old, Labels: job.Labels}}
	old.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	if err := c.waitForPods(ctx, old); err != nil {
		return Result{}, phrase.Errorf("%w\nThe new job is there, and paused: resume it when the pods of the old one have ended", err)
	}
	if err := c.letGo(ctx, job, known.Suspend, known.Held); err != nil || known.Held || !known.Suspend {
		return result, err
	}
	return c.step(ctx, ref, opts, ActionResumed, jobplan.Resume) // it was paused when it was made again
}

// makeKnown creates a Job that a Lease knows, and gives it what was kept of the job.
func (c *Client) makeKnown(ctx context.Context, job *batchv1.Job, lease client.Object) error {
	if err := c.createOne(ctx, job); err != nil {
		return err
	}
	c.forget(ctx, lease)
	if _, err := c.reserve(ctx, job); err != nil {
		return err
	}
	var kept []*unstructured.Unstructured
	for _, kind := range keptKinds {
		found, err := c.list(ctx, kind, job.Namespace, jobOf(job))
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
			part, err := c.read(ctx, object)
			if err != nil {
				return err
			}
			kept = append(kept, part) // nil if it has gone
		}
	}
	if err := c.handOver(ctx, kept, job); err != nil {
		return err
	}
	return c.endKeeping(ctx, job)
}

// keptKinds are those of what may belong to a training job.
var keptKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Service"), schema.FromAPIVersionAndKind(names.PodGroupAPIVersion, names.PodGroupKind),
}
