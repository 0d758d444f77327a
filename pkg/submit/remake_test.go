package submit

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// digestOf is what whoever looks at the Job that would be made reads.
func digestOf(t *testing.T, c *Client, ref Ref) string {
	t.Helper()
	result, err := c.Resume(t.Context(), ref, StepOptions{DryRun: true})
	if err != nil || result.Replacement == nil {
		t.Fatalf("a dry run: %+v, error %v", result, err)
	}
	return result.Replacement.Digest
}

// put has a Lease hold another Job, as whoever may write Leases can.
func put(t *testing.T, c *Client, known replacement) {
	t.Helper()
	text, err := known.encodeText()
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.InterruptedReplacement(t.Context(), sft)
	if err != nil || lease == nil {
		t.Fatalf("it is %v, error %v", lease, err)
	}
	lease.SetAnnotations(map[string]string{names.AnnotationReplacement: text})
	if err := c.api.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

// TestNoJobIsMadeUnseen: without its digest, with that of another, and when it is exchanged between the look and the making.
func TestNoJobIsMadeUnseen(t *testing.T) {
	tests := map[string]struct {
		digest string
		// exchanged is what else is changed after the look, nil for nothing.
		exchanged func(*replacement)
	}{
		"no digest":             {},
		"no digest of this Job": {digest: "sha256:00"},
		"another image": {exchanged: func(r *replacement) {
			r.Job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "evil"}}
		}},
		"another YAML":                {exchanged: func(r *replacement) { r.Job.Annotations[names.AnnotationSubmitted] = "kind: training" }},
		"started where it was paused": {exchanged: func(r *replacement) { r.Suspend = !r.Suspend }},
		"held":                        {exchanged: func(r *replacement) { r.Held = !r.Held }},
		"other pods waited for":       {exchanged: func(r *replacement) { r.Old = "others" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := brokenOff(t, replacement{})
			digest := tc.digest
			if tc.exchanged != nil {
				digest = digestOf(t, c, sft)
				lease, _ := c.InterruptedReplacement(t.Context(), sft)
				known, err := decodeReplacement(lease.GetAnnotations()[names.AnnotationReplacement])
				if err != nil {
					t.Fatal(err)
				}
				tc.exchanged(&known)
				put(t, c, known)
			}
			_, err := c.Resume(t.Context(), sft, StepOptions{Now: time.Now(), Digest: digest})
			var unseen *UnseenJobError
			if !errors.As(err, &unseen) || unseen.Asked != digest || unseen.Replacement.Digest == digest {
				t.Errorf("it says %v, want that nobody has seen the Job", err)
			}
			if _, err := c.TopObject(t.Context(), sft); !isNotFound(err) {
				t.Errorf("the Job: %v, want that there is none", err)
			}
		})
	}
}

// TestAJobOfAnotherPlaceIsNeverMade, whoever has seen it: its Lease is of one job.
func TestAJobOfAnotherPlaceIsNeverMade(t *testing.T) {
	tests := map[string]func(*batchv1.Job){
		"another namespace":     func(job *batchv1.Job) { job.Namespace = "kube-system" },
		"no namespace":          func(job *batchv1.Job) { job.Namespace = "" },
		"another name":          func(job *batchv1.Job) { job.Name = "other" },
		"the name of a service": func(job *batchv1.Job) { job.Labels[names.LabelJobType] = "inference" },
		"a name that is made":   func(job *batchv1.Job) { job.GenerateName = "sft-" },
		"another job":           func(job *batchv1.Job) { job.Labels[names.LabelJob] = "other" },
		"no job of gpuctl's":    func(job *batchv1.Job) { delete(job.Labels, names.LabelManagedBy) },
		"an owner": func(job *batchv1.Job) {
			job.OwnerReferences = append(job.OwnerReferences, referenceTo(jobNamed("owner")))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := brokenOff(t, replacement{})
			fresh := jobNamed("")
			change(fresh)
			put(t, c, replacement{Job: fresh})
			for _, options := range []StepOptions{{DryRun: true}, {}, {Digest: "sha256:00"}} {
				if _, err := c.Resume(t.Context(), sft, options); !errors.As(err, new(*MisplacedJobError)) {
					t.Errorf("with %+v it says %v, want that the Job is not of the job", options, err)
				}
			}
		})
	}
}

// TestWhatIsKnownGoesWithTheJob when somebody was stopped after the new Job was made: a later resume must not bring the job back.
func TestWhatIsKnownGoesWithTheJob(t *testing.T) {
	tests := map[string]struct {
		next func(context.Context, *Client) error
		// job is the one that is there; stays says that what is known stays for who is at making it again.
		job   types.UID
		stays bool
	}{
		"delete":             {job: "new", next: deletes("")},
		"delete of its kind": {job: "new", next: deletes("training")},
		"resume":             {job: "new", next: resumes(StepOptions{})},
		"resume before it":   {job: "old", next: resumes(StepOptions{}), stays: true},
		"a dry run":          {job: "new", next: resumes(StepOptions{DryRun: true}), stays: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			top := jobNamed(tc.job)
			c := cluster(nil, top)
			if lease, err := c.saveReplacement(t.Context(), top, replacement{Job: jobNamed(""), Old: "old"}); err != nil || lease == nil {
				t.Fatalf("what is remembered is %v, error %v", lease, err)
			}
			if err := tc.next(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if left, err := c.InterruptedReplacement(t.Context(), sft); err != nil || (left != nil) != tc.stays {
				t.Errorf("what is known is %v, error %v", left, err)
			}
		})
	}
}

// TestWhoMayNotRemoveWhatIsKnown deletes the job all the same: whoever may write Leases keeps nobody from deleting their own. Of a job of which
// nothing else is there that is all that could be done.
func TestWhoMayNotRemoveWhatIsKnown(t *testing.T) {
	for name, there := range map[string]bool{"the job is there": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			top := jobNamed("new")
			c := cluster(nil, top)
			if lease, err := c.saveReplacement(t.Context(), top, replacement{Job: jobNamed(""), Old: "old"}); err != nil || lease == nil {
				t.Fatalf("what is remembered is %v, error %v", lease, err)
			}
			if !there {
				if err := c.removeObject(t.Context(), top); err != nil {
					t.Fatal(err)
				}
			}
			c.api = keepsLeases{c.api}
			_, err := c.Delete(t.Context(), sft.Namespace, sft.Name, "")
			if (err == nil) != there || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("deleting it: %v", err)
			}
			if _, err := c.TopObject(t.Context(), sft); !isNotFound(err) {
				t.Errorf("the Job: %v, want that there is none", err)
			}
		})
	}
}

// keepsLeases is the API server to a user who may not delete Leases.
type keepsLeases struct{ client.Client }

func (c keepsLeases) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	if object.GetObjectKind().GroupVersionKind().Kind == "Lease" {
		return apierrors.NewForbidden(coordinationv1.Resource("leases"), object.GetName(), errors.New("not yours"))
	}
	return c.Client.Delete(ctx, object, opts...)
}

func deletes(kind string) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		_, err := c.Delete(ctx, sft.Namespace, sft.Name, kind)
		return err
	}
}

func resumes(options StepOptions) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		_, err := c.Resume(ctx, sft, options)
		return err
	}
}

// TestWhoLooksIsToldOfChanges: gpuctl writes what it knows once.
func TestWhoLooksIsToldOfChanges(t *testing.T) {
	c, _ := brokenOff(t, replacement{})
	lease, err := c.InterruptedReplacement(t.Context(), sft)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	known, err := decodeReplacement(lease.GetAnnotations()[names.AnnotationReplacement])
	if err != nil {
		t.Fatal(err)
	}
	for later, want := range map[time.Duration]time.Time{0: {}, time.Hour: made.Add(time.Hour)} {
		wrote(lease, made, made.Add(later))
		r, err := newReplacement(lease, known)
		if err != nil || !r.Kept.Equal(made) || !r.Changed.Equal(want) {
			t.Errorf("written %s later it is kept since %s, and changed at %s, error %v", later, r.Kept, r.Changed, err)
		}
	}
}

// wrote has an object written at these moments, the first of which made it.
func wrote(object client.Object, moments ...time.Time) {
	object.SetCreationTimestamp(metav1.NewTime(moments[0]))
	var fields []metav1.ManagedFieldsEntry
	for _, moment := range moments {
		at := metav1.NewTime(moment)
		fields = append(fields, metav1.ManagedFieldsEntry{Time: &at})
	}
	object.SetManagedFields(fields)
}
