package render

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestAJobAsksForNoneOfTheGPUsThatALimitRangeGives: every container of it says so, and in no other namespace any does.
func TestAJobAsksForNoneOfTheGPUsThatALimitRangeGives(t *testing.T) {
	shares := map[string]bool{"default": true}
	tests := map[string]struct {
		resources, namespace string
		// want is what the container and the one that unpacks the folder ask of whole GPUs, "" for not named.
		want, unpack string
	}{
		"no GPUs":                      {"{cpu: 1}", "ml-team", "0", "0"},
		"parts of GPUs":                {"{gpu: 1, gpu-share: 1Gi}", "ml-team", "0", "0"},
		"two GPUs":                     {"{gpu: 2}", "ml-team", "2", "0"},
		"a namespace without defaults": {"{cpu: 1}", "other", "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, problems := workload.Parse("t", []byte("kind: training\njob: {name: prep, workdir: .}\nenvironment: {image: b}\nresources: "+tc.resources+"\n"))
			if problems.HasErrors() {
				t.Fatal(problems)
			}
			docs[0].Upload = workload.NewUpload(strings.Repeat("ab", 32), []byte("x"))
			objects, _, err := Objects(docs[0], Options{Namespace: tc.namespace, SharedPools: shares,
				DefaultedGPUs: map[string][]corev1.ResourceName{"ml-team": {names.ResourceGPU}}})
			if err != nil {
				t.Fatal(err)
			}
			pod := &objects[0].(*batchv1.Job).Spec.Template.Spec
			for i, container := range []corev1.Container{pod.Containers[0], pod.InitContainers[0]} {
				want := []string{tc.want, tc.unpack}[i]
				limit, request := gpusIn(container.Resources.Limits), gpusIn(container.Resources.Requests)
				if limit != want || request != want {
					t.Errorf("container %s is limited to %q GPUs and asks for %q, want %q", container.Name, limit, request, want)
				}
			}
		})
	}
}

func gpusIn(list corev1.ResourceList) string {
	amount, named := list[names.ResourceGPU]
	if !named {
		return ""
	}
	return amount.String()
}
