package submit

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

// brokenOff is a cluster in which somebody was stopped who made job sft again, after its Job was deleted; the claim is of the job.
func brokenOff(t *testing.T, known replacement) (*Client, client.Object) {
	t.Helper()
	old := jobNamed("old")
	claim := claimOf("data", old)
	c := cluster(nil, old, claim)
	plan := keepAll(t, c, old, claim)
	fresh := jobNamed("")
	fresh.Spec.Suspend, fresh.Spec.ActiveDeadlineSeconds = ptr.To(true), ptr.To[int64](60)
	if known.Suspend {
		fresh.Annotations = map[string]string{names.AnnotationPausedAt: "2026-11-01T12:00:00Z"}
	} else {
		jobplan.AnnotateHeld(fresh)
	}
	known.Job, known.Old = fresh, old.UID
	if lease, err := c.saveReplacement(t.Context(), plan.live, known); err != nil || lease == nil {
		t.Fatalf("what is remembered is %v, error %v", lease, err)
	}
	if err := c.removeObject(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	return c, claim
}

// TestAJobThatWasNotMadeAgainIsMadeByResume, with all that it had, and whether it ran or was paused.
func TestAJobThatWasNotMadeAgainIsMadeByResume(t *testing.T) {
	for name, known := range map[string]replacement{"it ran": {}, "it was paused": {Suspend: true}} {
		t.Run(name, func(t *testing.T) {
			c, claim := brokenOff(t, known)
			ref := Ref{Namespace: "lab", Name: "sft"}
			if result, err := c.Resume(t.Context(), ref, StepOptions{DryRun: true, Now: time.Now()}); err != nil || result.Action != ActionResumed {
				t.Errorf("a dry run: %+v, error %v", result, err)
			}
			if _, err := c.TopObject(t.Context(), ref); !isNotFound(err) {
				t.Errorf("after a dry run: %v", err)
			}
			result, err := c.Resume(t.Context(), ref, StepOptions{Now: time.Now(), Digest: digestOf(t, c, ref)})
			if err != nil || result.Action != ActionResumed {
				t.Fatalf("it is %+v, error %v", result, err)
			}
			top, err := c.TopObject(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			job := top.(*batchv1.Job)
			_, why := job.Annotations[names.AnnotationPausedBecause]
			if ptr.Deref(job.Spec.Suspend, false) || *job.Spec.ActiveDeadlineSeconds != 60 || why {
				t.Errorf("the Job is %+v, annotations %v", job.Spec, job.Annotations)
			}
			wantOwnedBy(t, seen(t, c, claim), job)
			for what, read := range map[string]func() (client.Object, error){
				"keeper": func() (client.Object, error) { return c.readKeeper(t.Context(), job) },
				"known":  func() (client.Object, error) { return c.InterruptedReplacement(t.Context(), ref) },
			} {
				if left, err := read(); err != nil || left != nil {
					t.Errorf("%s is still %v, error %v", what, left, err)
				}
			}
		})
	}
}

// TestAJobThatWasNotMadeAgainIsGivenUpByDelete, so that resume does not bring it back.
func TestAJobThatWasNotMadeAgainIsGivenUpByDelete(t *testing.T) {
	c, _ := brokenOff(t, replacement{})
	if _, err := c.Delete(t.Context(), "lab", "sft", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resume(t.Context(), Ref{Namespace: "lab", Name: "sft"}, StepOptions{}); !isNotFound(err) {
		t.Errorf("it says %v, want that the job is not there", err)
	}
}

// TestWhatIsKnownOfAnotherTimeGivesWay: somebody was stopped before it was forgotten.
func TestWhatIsKnownOfAnotherTimeGivesWay(t *testing.T) {
	old := jobNamed("old")
	c := cluster(nil, old)
	for _, image := range []string{"first", "second"} {
		fresh := jobNamed("")
		fresh.Annotations = map[string]string{"image": image}
		if lease, err := c.saveReplacement(t.Context(), old, replacement{Job: fresh}); err != nil || lease == nil {
			t.Fatalf("%s: %v, error %v", image, lease, err)
		}
	}
	lease, err := c.InterruptedReplacement(t.Context(), Ref{Namespace: "lab", Name: "sft"})
	if err != nil || lease == nil {
		t.Fatalf("it is %v, error %v", lease, err)
	}
	known, err := decodeReplacement(lease.GetAnnotations()[names.AnnotationReplacement])
	if err != nil || known.Job.Annotations["image"] != "second" {
		t.Errorf("it knows %+v, error %v", known.Job, err)
	}
}

// TestWhatIsKnownMayBeAnything, as whoever writes Leases may write it.
func TestWhatIsKnownMayBeAnything(t *testing.T) {
	nothing, err := replacement{}.encodeText()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"nothing": "", "no base64": "!", "no gzip": "aGVsbG8=", "no Job": nothing, "cut off": nothing[:20]} {
		if known, err := decodeReplacement(text); err == nil {
			t.Errorf("%s: it knows %+v", name, known)
		}
	}
	large := jobNamed("")
	large.Annotations = map[string]string{}
	for i := range 40_000 {
		large.Annotations[strings.Repeat("x", i%97)+time.Unix(int64(i)*7919, int64(i)*104729).String()] = ""
	}
	if lease, err := cluster(nil).saveReplacement(t.Context(), jobNamed("old"), replacement{Job: large}); lease != nil || err != nil {
		t.Errorf("one that is too large is %v, error %v", lease, err)
	}
}
