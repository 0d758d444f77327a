package inventory

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestAJobShowsTheGPUsThatItsPodsGot: a LimitRange of the namespace gave them some, which the job's template does not name.
func TestAJobShowsTheGPUsThatItsPodsGot(t *testing.T) {
	one := corev1.ResourceList{names.ResourceGPU: resource.MustParse("1")}
	none := corev1.ResourceList{names.ResourceGPU: resource.MustParse("0")}
	now := time.Now()
	tests := map[string]struct {
		template corev1.ResourceList
		// pods are what the pods ask, the oldest first.
		pods []corev1.ResourceList
		want int64
	}{
		"no pod yet":                             {want: 0},
		"a LimitRange gave the pod a GPU":        {pods: []corev1.ResourceList{one}, want: 1},
		"the job says 0":                         {template: none, pods: []corev1.ResourceList{none}, want: 0},
		"the newest pod has none any more":       {pods: []corev1.ResourceList{one, nil}, want: 0},
		"an edit took the GPU, and its pod goes": {template: none, pods: []corev1.ResourceList{one}, want: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{names.LabelJob: "prep", names.LabelJobType: "training"}
			asking := func(list corev1.ResourceList) corev1.PodSpec {
				return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}}
			}
			read := &snapshot.Snapshot{Jobs: []batchv1.Job{{
				ObjectMeta: metav1.ObjectMeta{Name: "prep", Namespace: "ml-team", Labels: labels},
				Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: asking(tc.template)}},
			}}}
			for i, list := range tc.pods {
				meta := metav1.ObjectMeta{Name: string(rune('a' + i)), Namespace: "ml-team", Labels: labels,
					CreationTimestamp: metav1.NewTime(now.Add(time.Duration(i) * time.Minute))}
				read.Pods = append(read.Pods, corev1.Pod{ObjectMeta: meta, Spec: asking(list)})
			}
			job := buildJobs(read)[0]
			if job.PodGPUs != tc.want || job.GPUs != tc.want {
				t.Errorf("the job has %d GPUs, %d a pod; want %d", job.GPUs, job.PodGPUs, tc.want)
			}
			if _, named := read.Jobs[0].Spec.Template.Spec.Containers[0].Resources.Limits[names.ResourceGPU]; named && tc.template == nil {
				t.Error("the template that was read was changed")
			}
		})
	}
}
