package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/fixture"
)

// bounds makes a quota of pairs of a resource and what is used of what it may be, such as "2/4".
func bounds(name string, used, hard map[corev1.ResourceName]string) corev1.ResourceQuota {
	out := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out.Spec.Hard, out.Status.Used = corev1.ResourceList{}, corev1.ResourceList{}
	for resourceName, value := range hard {
		out.Spec.Hard[resourceName] = resource.MustParse(value)
	}
	for resourceName, value := range used {
		out.Status.Used[resourceName] = resource.MustParse(value)
	}
	return out
}

func TestOver(t *testing.T) {
	const gpus = "requests.nvidia.com/gpu"
	type list = map[corev1.ResourceName]string
	scoped := bounds("scoped", nil, list{gpus: "1"})
	scoped.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"g8s-high"}},
	}}
	strange := bounds("strange", nil, list{gpus: "1"})
	strange.Spec.Scopes = []corev1.ResourceQuotaScope{"Tomorrow"}
	high := fixture.Pod("p").GPUs(4).Obj()
	high.Spec.PriorityClassName = "g8s-high"
	tests := map[string]struct {
		quotas []corev1.ResourceQuota
		pod    *corev1.Pod
		pods   int64
		want   []string
	}{
		"there is room":            {[]corev1.ResourceQuota{bounds("q", list{gpus: "4"}, list{gpus: "8"})}, fixture.Pod("p").GPUs(4).Obj(), 1, nil},
		"a quota without counts":   {[]corev1.ResourceQuota{bounds("q", nil, list{gpus: "8"})}, fixture.Pod("p").GPUs(4).Obj(), 1, nil},
		"others use what is asked": {[]corev1.ResourceQuota{bounds("q", list{gpus: "6"}, list{gpus: "8"})}, fixture.Pod("p").GPUs(4).Obj(), 1, []string{"asks 4 GPUs, and 6 of 8 are in use (quota q)"}},
		"more than there may be":   {[]corev1.ResourceQuota{bounds("q", nil, list{gpus: "2"})}, fixture.Pod("p").GPUs(4).Obj(), 1, []string{"asks 4 GPUs, the namespace may have 2 (quota q): it never fits"}},
		"several pods together":    {[]corev1.ResourceQuota{bounds("q", nil, list{gpus: "8"})}, fixture.Pod("p").GPUs(8).Obj(), 2, []string{"asks 16 GPUs, the namespace may have 8 (quota q): it never fits"}},
		"several resources, what never fits first": {
			[]corev1.ResourceQuota{bounds("q", list{gpus: "4"}, list{gpus: "4", "requests.cpu": "2", "pods": "9", "services": "0"})}, fixture.Pod("p").GPUs(4).CPU(4).Obj(), 1,
			[]string{"asks 4 CPUs, the namespace may have 2 (quota q): it never fits", "asks 4 GPUs, and 4 of 4 are in use (quota q)"},
		},
		"too many pods":                          {[]corev1.ResourceQuota{bounds("q", list{"pods": "3"}, list{"pods": "3"})}, fixture.Pod("p").Obj(), 1, []string{"asks 1 pod, and 3 of 3 are in use (quota q)"}},
		"a quota for another priority":           {[]corev1.ResourceQuota{scoped}, fixture.Pod("p").GPUs(4).Obj(), 1, nil},
		"a quota for its priority":               {[]corev1.ResourceQuota{scoped}, high, 1, []string{"asks 4 GPUs, the namespace may have 1 (quota scoped): it never fits"}},
		"a quota of which not all is understood": {[]corev1.ResourceQuota{strange}, fixture.Pod("p").GPUs(4).Obj(), 1, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, excess := range FindExcess(tc.quotas, tc.pod, tc.pods) {
				got = append(got, excess.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPodThatSaysOnlyItsLimits asks for as much, as the API server fills in when the pod is created, and not before.
func TestAPodThatSaysOnlyItsLimits(t *testing.T) {
	const gpus = corev1.ResourceName("requests.nvidia.com/gpu")
	list := func(count string) corev1.ResourceList { return corev1.ResourceList{gpus: resource.MustParse(count)} }
	quotas := []corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: list("2")}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")},
	}}}}}
	if over := FindExcess(quotas, pod, 1); len(over) != 1 || over[0].Asked.Value() != 4 || !over[0].Never {
		t.Errorf("it is over by %+v, want 4 GPUs of 2", over)
	}
	if pod.Spec.Containers[0].Resources.Requests != nil {
		t.Error("the pod was changed")
	}
}

// TestWith has two jobs ask for what is there for one.
func TestWith(t *testing.T) {
	const gpus = "requests.nvidia.com/gpu"
	pod := fixture.Pod("p").GPUs(4).Obj()
	job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Template: corev1.PodTemplateSpec{Spec: pod.Spec}}}
	before := []corev1.ResourceQuota{bounds("q", nil, map[corev1.ResourceName]string{gpus: "8"})}
	if over := FindJobExcess(before, job); over != nil {
		t.Errorf("the first: %s, want room", over)
	}
	over := FindJobExcess(WithJob(before, job), job)
	if want := "asks 8 GPUs, and 8 of 8 are in use (quota q)"; over == nil || over.String() != want {
		t.Errorf("the second: %v, want %q", over, want)
	}
	if over := FindJobExcess(before, job); over != nil {
		t.Errorf("the quotas themselves were changed: %s", over)
	}
}

// TestLimitsOfExtendedResourcesCountNothing in a quota, as in Kubernetes: no job is said to be kept out by them.
func TestLimitsOfExtendedResourcesCountNothing(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Limits: quantities("nvidia.com/gpu", "8", "cpu", "4"),
	}}}}}
	for name, want := range map[corev1.ResourceName]string{
		"limits.nvidia.com/gpu": "0", "requests.nvidia.com/gpu": "8", "limits.cpu": "4", "nvidia.com/gpu": "0",
	} {
		if got := PodAmount(pod, name); got.String() != want {
			t.Errorf("of %s the pod uses %s, want %s", name, got.String(), want)
		}
	}
}
