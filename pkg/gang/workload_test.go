package gang

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestWorkloadOf(t *testing.T) {
	owner := func(kind, name string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "any/v1", Kind: kind, Name: name, Controller: ptr.To(true)}
	}
	for name, tc := range map[string]struct {
		labels map[string]string
		owner  *metav1.OwnerReference
		want   Workload
	}{
		"a pod alone":               {want: Workload{KindPod, "p"}},
		"a static pod of a node":    {owner: owner("Node", "n1"), want: Workload{KindPod, "p"}},
		"a job of gpuctl":           {labels: map[string]string{"g8s.host/job": "sft", "g8s.host/job-type": "training"}, owner: owner("Job", "sft-1"), want: Workload{"training", "sft"}},
		"pods of a PodGroup":        {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "g"}, want: Workload{KindPodGroup, "g"}},
		"a PodGroup of a Job":       {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "g"}, owner: owner("Job", "train"), want: Workload{KindJob, "train"}},
		"a PyTorchJob's PodGroup":   {labels: map[string]string{"scheduling.x-k8s.io/pod-group": "t", labelTrainingJob: "t", labelTrainingOperator: "pytorchjob-controller"}, owner: owner("PyTorchJob", "t"), want: Workload{"PyTorchJob", "t"}},
		"a JobSet":                  {labels: map[string]string{labelJobSet: "js"}, owner: owner("Job", "js-workers-0"), want: Workload{KindJobSet, "js"}},
		"a TrainJob":                {labels: map[string]string{labelJobSet: "tj", labelTrainStep: "trainer"}, owner: owner("Job", "tj-node-0"), want: Workload{KindTrainJob, "tj"}},
		"a LeaderWorkerSet":         {labels: map[string]string{labelLeaderWorkerSet: "vllm", labelReplica: "1"}, owner: owner("StatefulSet", "vllm-1"), want: Workload{KindLeaderWorkerSet, "vllm"}},
		"a RayCluster":              {labels: map[string]string{labelRayCluster: "ray", labelRayNode: "head"}, owner: owner("RayCluster", "ray"), want: Workload{KindRayCluster, "ray"}},
		"the cluster of a RayJob":   {labels: map[string]string{labelRayCluster: "rj-x1", labelRayNode: "worker", labelRayOriginKind: "RayJob", labelRayOrigin: "rj"}, owner: owner("RayCluster", "rj-x1"), want: Workload{KindRayJob, "rj"}},
		"an executor of Spark":      {labels: map[string]string{labelSpark: "pi"}, owner: owner("Pod", "pi-driver"), want: Workload{KindSpark, "pi"}},
		"a Deployment":              {labels: map[string]string{"pod-template-hash": "5d7f"}, owner: owner("ReplicaSet", "web-5d7f"), want: Workload{KindDeployment, "web"}},
		"a ReplicaSet alone":        {owner: owner("ReplicaSet", "web"), want: Workload{"ReplicaSet", "web"}},
		"a hash of another set":     {labels: map[string]string{"pod-template-hash": "5d7f"}, owner: owner("ReplicaSet", "web-1"), want: Workload{"ReplicaSet", "web-1"}},
		"a StatefulSet":             {owner: owner("StatefulSet", "db"), want: Workload{KindStatefulSet, "db"}},
		"a step of Argo":            {owner: owner("Workflow", "etl"), want: Workload{"Workflow", "etl"}},
		"a Job without indexes":     {owner: owner("Job", "train"), want: Workload{KindJob, "train"}},
		"Ray's labels of a user's":  {labels: map[string]string{labelRayCluster: "ray", labelRayNode: "head", labelRayOriginKind: "RayJob", labelRayOrigin: "rj"}, want: Workload{KindPod, "p"}},
		"an origin of no such kind": {labels: map[string]string{labelRayCluster: "ray", labelRayNode: "head", labelRayOriginKind: "training", labelRayOrigin: "sft"}, owner: owner("RayCluster", "ray"), want: Workload{KindRayCluster, "ray"}},
		"Spark's label of a user's": {labels: map[string]string{labelSpark: "pi"}, owner: owner("Job", "mine"), want: Workload{KindJob, "mine"}},
		"an origin without a name":  {labels: map[string]string{labelRayOriginKind: "RayJob"}, want: Workload{KindPod, "p"}},
		"a label of Ray by a user":  {labels: map[string]string{labelRayNode: "head"}, want: Workload{KindPod, "p"}},
		"a replica of no object":    {labels: map[string]string{labelReplica: "0"}, want: Workload{KindPod, "p"}},
		"a job of no operator":      {labels: map[string]string{labelTrainingJob: "t", labelTrainingOperator: "mine"}, owner: owner("MyJob", "t"), want: Workload{"MyJob", "t"}},
		"a task of gpuctl's array":  {labels: map[string]string{"g8s.host/job": "sweep", "g8s.host/job-type": "training"}, owner: owner("Job", "sweep"), want: Workload{"training", "sweep"}},
		"a ray node of gpuctl's":    {labels: map[string]string{"g8s.host/job": "mine", labelRayCluster: "ray", labelRayNode: "head"}, want: Workload{"", "mine"}},
		"an owner without a kind":   {owner: owner("", ""), want: Workload{KindPod, "p"}},
		"a DaemonSet":               {owner: owner("DaemonSet", "probe"), want: Workload{"DaemonSet", "probe"}},
		"a job of Volcano, by kind": {owner: owner("Job", "v"), want: Workload{KindJob, "v"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: tc.labels}}
			if tc.owner != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*tc.owner}
			}
			if got := WorkloadOf(pod); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			kept := OwnerLabels()
			for label := range tc.labels {
				if !slices.Contains(kept, label) {
					t.Errorf("label %s decides, and is not kept", label)
				}
			}
		})
	}
}

func TestReplicaOf(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"a replica of a LeaderWorkerSet": {map[string]string{labelLeaderWorkerSet: "vllm", labelReplica: "1"}, "1"},
		"a job of a JobSet":              {map[string]string{labelJobSet: "js", labelReplicatedJob: "workers"}, ""},
		"a pod alone":                    {nil, ""},
	} {
		if got := ReplicaOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestUnitOf(t *testing.T) {
	labelled := map[string]string{"scheduling.x-k8s.io/pod-group": "g"}
	job := memberOf(nil, "uid")
	job.OwnerReferences[0].APIVersion, job.OwnerReferences[0].Name = "batch/v1", "train"
	job.Annotations = map[string]string{"batch.kubernetes.io/job-completion-index": "0"}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"of a PodGroup":                  {memberOf(labelled, "uid"), "ns/g/uid"},
		"of a PodGroup, by itself":       {memberOf(labelled, ""), "ns/g/"},
		"a replica of a LeaderWorkerSet": {memberOf(map[string]string{labelLeaderWorkerSet: "vllm", labelReplica: "1"}, "uid"), "ns/LeaderWorkerSet/vllm/1"},
		"a JobSet":                       {memberOf(map[string]string{labelJobSet: "js", labelReplicatedJob: "workers"}, "uid"), "ns/JobSet/js"},
		"an index of a Job":              {job, ""},
		"a pod alone":                    {memberOf(nil, ""), ""},
	} {
		if got := UnitOf(tc.pod); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestWithoutGroup(t *testing.T) {
	labels := map[string]string{"a": "b"}
	SetGroup(labels, "g")
	if name, named := NamedGroup(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}); !named || name.Name != "g" {
		t.Errorf("they name %q, %t", name.Name, named)
	}
	if rest := WithoutGroup(labels); len(rest) != 1 || len(labels) != 2 {
		t.Errorf("of %v, %v is left", labels, rest)
	}
}
