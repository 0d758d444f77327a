package submit

import (
	"context"
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func plainJob(name string) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name,
			Labels: map[string]string{names.LabelJob: name, names.LabelJobType: "training", names.LabelManagedBy: names.ManagedByGpuctl}},
	}
}

// TestACreationOfWhichTheAnswerIsNotTheTruth: what was created is created, whatever was answered, and what somebody else has is not.
func TestACreationOfWhichTheAnswerIsNotTheTruth(t *testing.T) {
	jobs := batchv1.Resource("jobs")
	tests := map[string]struct {
		there  bool // somebody else has the name
		done   bool // the request is carried out
		answer error
		exists bool // it is told that somebody else has the name
	}{
		"a proxy that lost the connection":            {done: true, answer: apierrors.NewServiceUnavailable("upstream connect error or disconnect/reset before headers")},
		"a server that gave up waiting":               {done: true, answer: apierrors.NewTimeoutError("etcd", 1)},
		"a connection that broke":                     {done: true, answer: errors.New("unexpected EOF")},
		"a request that was sent twice":               {done: true, answer: apierrors.NewAlreadyExists(jobs, "a")},
		"a name that is taken":                        {there: true, answer: apierrors.NewAlreadyExists(jobs, "a"), exists: true},
		"a name that is taken, and no answer of that": {there: true, answer: apierrors.NewServiceUnavailable("reset"), exists: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if tc.there {
				builder.WithObjects(plainJob("a"))
			}
			builder.WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if tc.done {
					if err := c.Create(ctx, o.DeepCopyObject().(client.Object), opts...); err != nil {
						t.Fatal(err)
					}
				}
				return tc.answer
			}})
			made := plainJob("a")
			err := NewClient(builder.Build()).createOne(t.Context(), made)
			if tc.exists != errors.As(err, new(*ExistsError)) || !tc.exists && err != nil {
				t.Fatalf("error %v", err)
			}
			if !tc.exists && made.ResourceVersion == "" {
				t.Error("the caller does not know which object it made")
			}
		})
	}
}
