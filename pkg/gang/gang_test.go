package gang

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestRecognize(t *testing.T) {
	job := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "train", Controller: ptr.To(true)}
	jobset := map[string]string{"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
	launcher := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "t-launcher", Controller: ptr.To(true)}
	other := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "training", Controller: ptr.To(true)}
	index := map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		owner               *metav1.OwnerReference
		group               *string
		want                Membership
		named               bool
		forged              bool // it has no controller
	}{
		"a pod alone":                         {},
		"the label":                           {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "g"}, named: true},
		"the label of a pod of a JobSet":      {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "g", "jobset.sigs.k8s.io/jobset-name": "train"}, named: true},
		"the label beside Kubernetes' field":  {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "g"}, group: ptr.To("native"), named: true},
		"Kubernetes' field":                   {group: ptr.To("native"), want: Membership{Kind: KindPodGroup, Object: "native"}},
		"Kubernetes' field of a JobSet":       {labels: jobset, group: ptr.To("native"), want: Membership{Kind: KindPodGroup, Object: "native"}},
		"Kubernetes' field, empty":            {group: ptr.To("")},
		"a JobSet":                            {labels: jobset, annotations: index, owner: &job, want: Membership{Kind: KindJobSet, Object: "train", Part: "workers"}},
		"labels of a JobSet without an owner": {labels: jobset, forged: true},
		"labels of a JobSet, and another Job": {labels: jobset, owner: &other},
		"a LeaderWorkerSet":                   {labels: map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "1"}, want: Membership{Kind: KindLeaderWorkerSet, Object: "vllm", Part: "1"}},
		"a head of Ray":                       {labels: map[string]string{"ray.io/cluster": "ray", "ray.io/node-type": "head"}, want: Membership{Kind: KindRayCluster, Object: "ray"}},
		"a worker of Ray":                     {labels: map[string]string{"ray.io/cluster": "ray", "ray.io/node-type": "worker"}, want: Membership{Kind: KindRayCluster, Object: "ray"}},
		"what cleans up after Ray":            {labels: map[string]string{"ray.io/cluster": "ray", "ray.io/node-type": "redis-cleanup"}},
		"a PyTorchJob":                        {labels: map[string]string{"training.kubeflow.org/job-name": "t", "training.kubeflow.org/operator-name": "pytorchjob-controller"}, want: Membership{Kind: "PyTorchJob", Object: "t"}},
		"the launcher of an MPIJob":           {labels: map[string]string{"training.kubeflow.org/job-name": "t", "training.kubeflow.org/operator-name": "mpi-operator"}, owner: &launcher, want: Membership{Kind: KindMPIJob, Object: "t"}},
		"a job of an operator not known":      {labels: map[string]string{"training.kubeflow.org/job-name": "t", "training.kubeflow.org/operator-name": "mine"}},
		"a Job with indexes":                  {annotations: index, owner: &job, want: Membership{Kind: KindJob, Object: "train"}},
		"a Job without indexes":               {owner: &job},
		"a task of an array of gpuctl's":      {labels: map[string]string{"g8s.host/job": "sweep"}, annotations: index, owner: &job},
		"an index without a Job":              {annotations: index},
		"a job of another API":                {annotations: index, owner: &metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "v", Controller: ptr.To(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: tc.labels, Annotations: tc.annotations}}
			switch {
			case tc.owner != nil:
				pod.OwnerReferences = []metav1.OwnerReference{*tc.owner}
			case tc.labels != nil && !tc.forged: // as its operator makes it
				pod.OwnerReferences = []metav1.OwnerReference{{Kind: tc.want.Kind, Name: tc.want.Object, Controller: ptr.To(true)}}
			}
			if tc.group != nil {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: tc.group}
			}
			got, ok := Recognize(pod)
			if got != tc.want || ok != (tc.want != Membership{}) {
				t.Errorf("got %+v, %t, want %+v", got, ok, tc.want)
			}
			if _, named := NamedGroup(pod); named != tc.named || MayBeMember(pod) != (ok || named) {
				t.Errorf("it names a PodGroup: %t, want %t; it may be a member: %t", named, tc.named, MayBeMember(pod))
			}
			for _, name := range []string{got.GroupName(), got.PartName()} {
				if !ok || name == "" {
					continue
				}
				want := got
				if name == got.GroupName() {
					want.Part = ""
				}
				if read, ok := Parse(name); !ok || read != want {
					t.Errorf("%s is read as %+v, %t, want %+v", name, read, ok, want)
				}
			}
		})
	}
	if m, ok := Parse("a-podgroup"); ok {
		t.Errorf("the name of a PodGroup is read as %+v", m)
	}
}
