package policy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/manifests"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestACopyIsAPodOfItsOwn has people and controllers make pods from one that the scheduler has placed, without and with the policy that takes the
// scheduler's words off. The scheduler and administrators may keep them.
func TestACopyIsAPodOfItsOwn(t *testing.T) {
	bindEverywhere(t, podMaker(t), "ana")
	bindEverywhere(t, "cluster-admin", "oscar")
	copied := both(annotated(names.AnnotationGPUDevices, "{}"), both(annotated(names.AnnotationEpoch, "a/1"), annotated(names.AnnotationDecision, "1/2")))
	copied = both(copied, both(annotated(names.AnnotationGangPlan, "a/2"), both(annotated(names.AnnotationPreemptionNotice, "{}"), annotated("own", "kept"))))
	create := func(who rest.ImpersonationConfig, change func(*corev1.Pod)) (*corev1.Pod, error) {
		pod := plain()
		change(pod)
		return as(who).CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, dryRun)
	}
	_, err := create(user("ana"), copied)
	checkRefusal(t, err, "kubectl debug POD --copy-to=NAME --profile=general")

	if err := cluster.ApplyManifests(t.Context(), manifests.FS, "policy/copies"); err != nil {
		t.Fatal(err)
	}
	isAllowed := func(context.Context) bool { _, err := create(user("ana"), copied); return err == nil }
	t.Cleanup(func() {
		policies := admin.AdmissionregistrationV1().MutatingAdmissionPolicies()
		if err := policies.Delete(context.WithoutCancel(t.Context()), "g8s-copies", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		eventually(t, "the policy to be gone", func(ctx context.Context) bool {
			pod := plain()
			copied(pod)
			_, err := as(user("ana")).CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, dryRun)
			return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
		})
	})
	eventually(t, "the policy to hold", isAllowed)
	all := []string{names.AnnotationDecision, names.AnnotationEpoch, names.AnnotationGangPlan, names.AnnotationGPUDevices, names.AnnotationPreemptionNotice}
	for name, tc := range map[string]struct {
		who  rest.ImpersonationConfig
		want []string
	}{
		"a user's copy":           {user("ana"), nil},
		"the copy of a Job":       {jobController, nil},
		"the scheduler":           {serviceAccount("gpu-scheduler"), all},
		"an administrator's copy": {user("oscar"), all},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.who.UserName == serviceAccount("gpu-scheduler").UserName {
				bindEverywhere(t, podMaker(t), tc.who.UserName)
			}
			pod, err := create(tc.who, copied)
			if err != nil {
				t.Fatal(err)
			}
			kept := slices.Sorted(maps.Keys(pod.Annotations))
			if want := slices.Sorted(slices.Values(append([]string{"own"}, tc.want...))); !slices.Equal(kept, want) {
				t.Errorf("it has %v, want %v", kept, want)
			}
		})
	}
}
