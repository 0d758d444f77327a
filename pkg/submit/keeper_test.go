package submit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// cluster is an API server that holds objects, gives those that are created an identity, and applies as it is told.
func cluster(apply error, objects ...client.Object) *Client {
	made := 0
	return NewClient(fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			made++
			object.SetUID(types.UID(fmt.Sprintf("made-%d", made)))
			return api.Create(ctx, object, opts...)
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return apply
		},
	}).Build())
}

// jobNamed is the Job of the training job "sft", under a UID.
func jobNamed(uid types.UID) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: partOf("sft", uid)}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return job
}

// claimOf is a claim of that job, with its owners.
func claimOf(name string, owners ...client.Object) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: partOf(name, types.UID(name))}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	for _, owner := range owners {
		claim.OwnerReferences = append(claim.OwnerReferences, referenceTo(owner))
	}
	return claim
}

func partOf(name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "lab", Name: name, UID: uid, Labels: map[string]string{
		names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: "sft", names.LabelJobType: "training",
	}}
}

// seen is an object as the API server has it.
func seen(t *testing.T, c *Client, like client.Object) *unstructured.Unstructured {
	t.Helper()
	found, err := c.readObject(t.Context(), like)
	if err != nil || found == nil {
		t.Fatalf("%s: got %v, error %v", describeObject(like), found, err)
	}
	return found
}

// wantOwnedBy demands that a part has exactly these owners.
func wantOwnedBy(t *testing.T, part *unstructured.Unstructured, owners ...client.Object) {
	t.Helper()
	same := len(part.GetOwnerReferences()) == len(owners)
	for _, owner := range owners {
		same = same && isOwned(part, owner)
	}
	if !same {
		t.Errorf("%s belongs to %v, want %v", describeObject(part), part.GetOwnerReferences(), owners)
	}
}

// planFor is the plan to make a job again, as it is now.
func planFor(t *testing.T, c *Client, live client.Object, claims ...client.Object) *jobPlan {
	t.Helper()
	plan := &jobPlan{live: live, desired: []client.Object{live}, before: []*unstructured.Unstructured{seen(t, c, live)}}
	for _, claim := range claims {
		plan.desired = append(plan.desired, claim.DeepCopyObject().(client.Object))
		plan.before = append(plan.before, seen(t, c, claim))
	}
	return plan
}

// TestWhoPlannedBeforeAnotherKeepsNothing: the claims are another Job's by then, which would go with the one that was planned for.
func TestWhoPlannedBeforeAnotherKeepsNothing(t *testing.T) {
	old, fresh := jobNamed("old"), jobNamed("fresh")
	claim := claimOf("data", old)
	c := cluster(nil, old, claim)
	first, second := planFor(t, c, old, claim), planFor(t, c, old, claim)
	keeper, err := c.keepParts(t.Context(), old, first.before[1:])
	if err != nil {
		t.Fatal(err)
	}
	first.keeper = keeper
	wantOwnedBy(t, seen(t, c, claim), old, keeper)
	if err := c.adoptParts(t.Context(), first, fresh); err != nil {
		t.Fatal(err)
	}
	if _, err := c.keepParts(t.Context(), old, second.before[1:]); !apierrors.IsConflict(err) {
		t.Errorf("the second is told %v, want a conflict", err)
	}
	wantOwnedBy(t, seen(t, c, claim), fresh)
}

// TestWhatTheGarbageCollectorChangesIsStillHandedBack: it takes the old Job, which is gone, off the claims.
func TestWhatTheGarbageCollectorChangesIsStillHandedBack(t *testing.T) {
	old, fresh := jobNamed("old"), jobNamed("fresh")
	claim := claimOf("data", old)
	c := cluster(nil, old, claim)
	plan := planFor(t, c, old, claim)
	var err error
	if plan.keeper, err = c.keepParts(t.Context(), old, plan.before[1:]); err != nil {
		t.Fatal(err)
	}
	if err := c.setOwners(t.Context(), []*unstructured.Unstructured{seen(t, c, claim)}, plan.keeper); err != nil {
		t.Fatal(err)
	}
	if err := c.adoptParts(t.Context(), plan, fresh); err != nil {
		t.Fatal(err)
	}
	wantOwnedBy(t, seen(t, c, claim), fresh)
	if left, err := c.readKeeper(t.Context(), old); err != nil || left != nil {
		t.Errorf("what kept the claim is %v, error %v, want it gone", left, err)
	}
}

// TestWhatAnotherKeepsMeanwhileIsLeftToThem: the new Job is made again by somebody else before it has its claims.
func TestWhatAnotherKeepsMeanwhileIsLeftToThem(t *testing.T) {
	old, fresh := jobNamed("old"), jobNamed("fresh")
	claim := claimOf("data", old)
	c := cluster(nil, old, claim)
	plan := planFor(t, c, old, claim)
	var err error
	if plan.keeper, err = c.keepParts(t.Context(), old, plan.before[1:]); err != nil {
		t.Fatal(err)
	}
	theirs, err := c.keepParts(t.Context(), fresh, []*unstructured.Unstructured{seen(t, c, claim)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.adoptParts(t.Context(), plan, fresh); err == nil || apierrors.IsConflict(err) {
		t.Errorf("the first is told %v, want that the job is left to the other", err)
	}
	wantOwnedBy(t, seen(t, c, claim), fresh, theirs)
}

// TestPartsAreNotGivenToAKeeperThatGoes: whoever made it was about to remove it, and the claims with the next Job.
func TestPartsAreNotGivenToAKeeperThatGoes(t *testing.T) {
	old := jobNamed("old")
	c := cluster(nil, old)
	gone := newKeeper(old)
	gone.SetUID("gone")
	if err := c.checkKeeper(t.Context(), old, gone); !apierrors.IsConflict(err) {
		t.Errorf("with no keeper left it is told %v, want a conflict", err)
	}
	other := newKeeper(old)
	if err := c.createOne(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := c.checkKeeper(t.Context(), old, gone); !apierrors.IsConflict(err) {
		t.Errorf("with another keeper it is told %v, want a conflict", err)
	}
	if err := c.checkKeeper(t.Context(), old, other); err != nil {
		t.Errorf("with the keeper there it is told %v", err)
	}
}

// keepAll plans to make a job again and gives all that belongs to it to its keeper.
func keepAll(t *testing.T, c *Client, live client.Object, mentioned ...client.Object) *jobPlan {
	t.Helper()
	plan := planFor(t, c, live, mentioned...)
	var err error
	if plan.retainedClaims, err = c.unmentionedClaims(t.Context(), live, nil, plan.desired); err != nil {
		t.Fatal(err)
	}
	if plan.keeper, err = c.keepParts(t.Context(), live, plan.ownedParts()); err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestClaimsThatTheYAMLDoesNotMentionStay when the job is made again, and again after that, when no YAML knows of them.
func TestClaimsThatTheYAMLDoesNotMentionStay(t *testing.T) {
	old, others := jobNamed("old"), jobNamed("others")
	mentioned, owned, kept := claimOf("mentioned", old), claimOf("owned", old), claimOf("kept", newKeeper(old))
	foreign := claimOf("foreign", others)
	c := cluster(nil, old, mentioned, owned, kept, foreign)
	for _, fresh := range []*batchv1.Job{jobNamed("second"), jobNamed("third")} {
		plan := keepAll(t, c, old, mentioned)
		for _, claim := range []client.Object{mentioned, owned, kept} {
			wantOwnedBy(t, seen(t, c, claim), old, plan.keeper)
		}
		if err := c.adoptParts(t.Context(), plan, fresh); err != nil {
			t.Fatal(err)
		}
		for _, claim := range []client.Object{mentioned, owned, kept} {
			wantOwnedBy(t, seen(t, c, claim), fresh)
		}
		old = fresh
	}
	wantOwnedBy(t, seen(t, c, foreign), others)
}

// TestClaimsThatTheYAMLDoesNotMentionAreThoseOfTheJobThatIsPutBack, if the new one is refused.
func TestClaimsThatTheYAMLDoesNotMentionAreThoseOfTheJobThatIsPutBack(t *testing.T) {
	old := jobNamed("old")
	mentioned, owned := claimOf("mentioned", old), claimOf("owned", old)
	c := cluster(nil, old, mentioned, owned)
	plan := keepAll(t, c, old, mentioned)
	if err := c.removeObject(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := c.restoreOldJob(t.Context(), plan, nil, refused); !errors.Is(err, refused) {
		t.Errorf("it says %v, want why", err)
	}
	again := seen(t, c, old)
	for _, claim := range []client.Object{mentioned, owned} {
		wantOwnedBy(t, seen(t, c, claim), again)
	}
}

// TestACreationThatFailsLeavesWhatWasKept to the keeper: the new Job goes again, and must not take the data with it.
func TestACreationThatFailsLeavesWhatWasKept(t *testing.T) {
	refused := errors.New("refused")
	tests := map[string]struct {
		apply error
		whole bool
	}{
		"a kept part cannot be changed": {apply: refused},
		"all is as it shall be":         {whole: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			holder := newKeeper(jobNamed("old"))
			holder.SetUID("holder")
			mentioned, unmentioned := claimOf("mentioned", holder), claimOf("unmentioned", holder)
			c := cluster(tc.apply, holder, mentioned, unmentioned)
			top := jobNamed("")
			err := c.Create(t.Context(), []client.Object{top, claimOf("mentioned")})
			if !errors.Is(err, tc.apply) {
				t.Fatalf("it says %v, want %v", err, tc.apply)
			}
			left, err := c.readKeeper(t.Context(), top)
			if err != nil || (left == nil) != tc.whole {
				t.Errorf("the keeper is %v, error %v", left, err)
			}
			if !tc.whole {
				wantOwnedBy(t, seen(t, c, mentioned), holder, top)
				wantOwnedBy(t, seen(t, c, unmentioned), holder)
				return
			}
			wantOwnedBy(t, seen(t, c, mentioned), top)
			wantOwnedBy(t, seen(t, c, unmentioned), top)
		})
	}
}

// TestAJobThatHasWhatWasKeptIsNotUndone: the last step fails when the claim is its own already.
func TestAJobThatHasWhatWasKeptIsNotUndone(t *testing.T) {
	holder := newKeeper(jobNamed("old"))
	holder.SetUID("holder")
	claim := claimOf("data", holder)
	lost := errors.New("refused")
	c := cluster(nil, holder, claim)
	c.api = undeletable{c.api, lost}
	top := jobNamed("")
	if err := c.Create(t.Context(), []client.Object{top, claimOf("data")}); !errors.As(err, new(*unsettledError)) || !errors.Is(err, lost) {
		t.Fatalf("it says %v, want that the job is there", err)
	}
	wantOwnedBy(t, seen(t, c, claim), seen(t, c, top))
}

// undeletable deletes nothing.
type undeletable struct {
	client.Client
	err error
}

func (u undeletable) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return u.err
}
