package idle

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := g8s.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// TestWhenAJobIsPaused: as it says itself, else as its pool does, and a service as it says itself alone.
func TestWhenAJobIsPaused(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, pool, says string
		want             time.Duration
	}{
		"a notebook, by its pool":               {kind: "notebook", pool: "lab", want: 2 * time.Hour},
		"a training, by its pool":               {kind: "training", pool: "lab", want: 2 * time.Hour},
		"a service is not":                      {kind: "inference", pool: "lab"},
		"a service that says it itself":         {kind: "inference", pool: "lab", says: "30m", want: 30 * time.Minute},
		"a job that says it itself":             {kind: "notebook", pool: "lab", says: "30m", want: 30 * time.Minute},
		"a job that says never":                 {kind: "notebook", pool: "lab", says: "never"},
		"a job of a pool that does not":         {kind: "notebook", pool: "train"},
		"a pool that says what it cannot":       {kind: "notebook", pool: "hasty"},
		"the pool default, of which is nothing": {kind: "notebook"},
	} {
		t.Run(name, func(t *testing.T) {
			about := metav1.ObjectMeta{Namespace: "team", Name: "j", UID: "j", Annotations: map[string]string{},
				Labels: map[string]string{g8s.LabelJob: "j", g8s.LabelJobType: tc.kind}}
			if tc.says != "" {
				about.Annotations[g8s.AnnotationIdleTimeout] = tc.says
			}
			var top client.Object = &batchv1.Job{ObjectMeta: about}
			if tc.kind == "inference" {
				top = &appsv1.Deployment{ObjectMeta: about}
			}
			pod := fixture.Pod("p").GPUs(1).Label(g8s.LabelJob, "j").Label(g8s.LabelJobType, tc.kind).Obj()
			pod.Namespace = "team"
			if tc.pool != "" {
				pod.Spec.NodeSelector = map[string]string{g8s.LabelPool: tc.pool}
			}
			pool := func(name string, timeout time.Duration) *g8s.GPUPool {
				return &g8s.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: g8s.GPUPoolSpec{Defaults: g8s.PoolDefaults{IdleTimeout: timeout.String()}}}
			}
			reader := fake.NewClientBuilder().WithScheme(schemeOf(t)).
				WithObjects(top, pod, pool("lab", 2*time.Hour), pool("hasty", time.Second), &g8s.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "train"}}).Build()
			jobs, err := gatherJobs(t.Context(), reader)
			if err != nil || len(jobs) != 1 || jobs[0].timeout != tc.want {
				t.Errorf("jobs %+v, %v, want a timeout of %s", jobs, err, tc.want)
			}
		})
	}
}
